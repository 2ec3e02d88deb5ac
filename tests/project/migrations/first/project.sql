-- A project as the first release wrote it, by its command line; never to be changed.
-- `tests/project/migrations/first_release.py` makes the file of it.
PRAGMA application_id = 1128416336;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num TEXT NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)) STRICT;
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE branches (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	name TEXT NOT NULL, 
	twin TEXT NOT NULL, 
	state TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	created_at_ms INTEGER NOT NULL, 
	closed_at_ms INTEGER, 
	CONSTRAINT pk_branches PRIMARY KEY (tenant, project, name), 
	CONSTRAINT ck_branches_closed_at_ms CHECK ((state = 'closed') = (closed_at_ms IS NOT NULL)), 
	CONSTRAINT ck_branches_state CHECK (state IN ('open', 'closed')), 
	CONSTRAINT fk_branches_tenant_project FOREIGN KEY(tenant, project) REFERENCES projects (tenant, project), 
	CONSTRAINT uq_branches_tenant_project_twin UNIQUE (tenant, project, twin)
)
 STRICT

;
INSERT INTO "branches" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','main','main','open',1,1796078287212,NULL);
INSERT INTO "branches" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','side','side','open',2,1796078304603,NULL);
INSERT INTO "branches" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','old','old','closed',3,1796078307536,1796078309660);
CREATE TABLE checkpoints (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	id TEXT NOT NULL, 
	session TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	next_action TEXT NOT NULL, 
	open_loops TEXT NOT NULL, 
	context_sha256 TEXT, 
	artifacts TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	at_ms INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, project, id), 
	CONSTRAINT fk_checkpoints_tenant_project_session FOREIGN KEY(tenant, project, session) REFERENCES sessions (tenant, project, id)
)
 STRICT

;
INSERT INTO "checkpoints" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','k_cf6c11caf31534fa74214ac584910491','s_d3df2bb0add4b5a5697a4443c286e7b3','half of it','the rest','["who reads it?"]',NULL,'[]','codex',1796078291992,4);
CREATE TABLE claims (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	id TEXT NOT NULL, 
	work TEXT NOT NULL, 
	session TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	branch TEXT NOT NULL, 
	state TEXT NOT NULL, 
	fence INTEGER NOT NULL, 
	acquired_at_ms INTEGER NOT NULL, 
	expires_at_ms INTEGER, 
	released_at_ms INTEGER, 
	CONSTRAINT pk_claims PRIMARY KEY (tenant, project, id), 
	CONSTRAINT ck_claims_released_at_ms CHECK ((state = 'active') = (released_at_ms IS NULL)), 
	CONSTRAINT ck_claims_state CHECK (state IN ('active', 'released', 'expired', 'transferred')), 
	CONSTRAINT ck_claims_expires_at_ms CHECK (expires_at_ms > acquired_at_ms AND expires_at_ms <= 9007199254740991), 
	CONSTRAINT ck_claims_fence CHECK (fence >= 1), 
	CONSTRAINT fk_claims_tenant_project_session FOREIGN KEY(tenant, project, session) REFERENCES sessions (tenant, project, id), 
	CONSTRAINT uq_claims_tenant_project_work_fence UNIQUE (tenant, project, work, fence)
)
 STRICT

;
INSERT INTO "claims" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','c_22c1cdfaa88d5832cb9e67f5367b8ff7','A','s_d3df2bb0add4b5a5697a4443c286e7b3','codex','main','transferred',1,1796078289824,NULL,1796078294009);
INSERT INTO "claims" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','c_cbf14538fd49f3954908c810871cddaf','A','s_6101b6bf9a27497ba12583809dc6b9e5','claude','main','released',2,1796078294009,NULL,1796078300907);
INSERT INTO "claims" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','c_c055c18e7abcd7add86505f4eebbdcf0','C','s_75b8a5e4679060a1e9a3f0d6da778ad0','gemini','side','expired',1,1796078314635,1796078314636,1796078319290);
INSERT INTO "claims" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','c_6495bd1ab8543fbe5fb80c8e4a9cbb2e','C','s_c37330e57274c711bfa1d3f526c2ac64','codex','main','active',2,1796078321880,NULL,NULL);
INSERT INTO "claims" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','c_ab2bda504e11a57b73b38eb5857f7300','B','s_cf17189e5bb3944637cfcdf2666c58af','gemini','side','active',1,1796078324579,1796078324580,NULL);
CREATE TABLE completions (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	id TEXT NOT NULL, 
	work TEXT NOT NULL, 
	branch TEXT NOT NULL, 
	session TEXT NOT NULL, 
	claim TEXT NOT NULL, 
	fence INTEGER NOT NULL, 
	criteria TEXT NOT NULL, 
	acceptance TEXT NOT NULL, 
	source_sha256 TEXT NOT NULL, 
	at_ms INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	CONSTRAINT pk_completions PRIMARY KEY (tenant, project, id), 
	CONSTRAINT fk_completions_tenant_project_branch FOREIGN KEY(tenant, project, branch) REFERENCES branches (tenant, project, name), 
	CONSTRAINT fk_completions_tenant_project_claim FOREIGN KEY(tenant, project, claim) REFERENCES claims (tenant, project, id), 
	CONSTRAINT fk_completions_tenant_project_session FOREIGN KEY(tenant, project, session) REFERENCES sessions (tenant, project, id)
)
 STRICT

;
INSERT INTO "completions" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','d_435b85f294410cf2baf1894e5bea3753','A','main','s_6101b6bf9a27497ba12583809dc6b9e5','c_cbf14538fd49f3954908c810871cddaf',2,'["it runs","it is told of"]','[["it runs",["v_cebe1280c1c1ecb117209a72c65d0f1a"]],["it is told of",["v_cebe1280c1c1ecb117209a72c65d0f1a"]]]','35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205',1796078298077,7);
CREATE TABLE events (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	work TEXT, 
	branch TEXT, 
	session TEXT, 
	revision INTEGER NOT NULL, 
	at_ms INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (tenant, project, seq), 
	CONSTRAINT fk_events_tenant_project FOREIGN KEY(tenant, project) REFERENCES projects (tenant, project), 
	CONSTRAINT uq_events_tenant_project_id UNIQUE (tenant, project, id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',1,'e_cf5d2e8434aa11867b109b5ea6b66007','project.created',NULL,NULL,NULL,1,1796078287212,'{"key":"demo","project":"p_3b9d99ba8642c99b12a2d91163f5c106"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',2,'e_4f56de21cc1b0e4786b3d652c7f60184','source.indexed',NULL,NULL,NULL,2,1796078287256,'{"files":[{"path":"work.yaml","sha256":"35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205"}],"goals":1,"items":3}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',3,'e_1fffd67e147b26875c83d9c185617aeb','session.started','A','main','s_d3df2bb0add4b5a5697a4443c286e7b3',3,1796078289824,'{"agent":"codex","model":"gpt","predecessor":null,"provider":"openai","session":"s_d3df2bb0add4b5a5697a4443c286e7b3"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',4,'e_b63a00896e280c737de2f4f8e64e384d','claim.acquired','A','main','s_d3df2bb0add4b5a5697a4443c286e7b3',3,1796078289824,'{"agent":"codex","branch":"main","claim":"c_22c1cdfaa88d5832cb9e67f5367b8ff7","expires_at_ms":null,"fence":1,"session":"s_d3df2bb0add4b5a5697a4443c286e7b3"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',5,'e_73e22d97bdfce3c0172ef38aa9f1bd00','session.checkpointed','A','main','s_d3df2bb0add4b5a5697a4443c286e7b3',4,1796078291992,'{"agent":"codex","checkpoint":"k_cf6c11caf31534fa74214ac584910491"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',6,'e_e8d7fff8bec2f773661e76c79e3d1f32','session.started','A','main','s_6101b6bf9a27497ba12583809dc6b9e5',5,1796078294009,'{"agent":"claude","model":null,"predecessor":"s_d3df2bb0add4b5a5697a4443c286e7b3","provider":null,"session":"s_6101b6bf9a27497ba12583809dc6b9e5"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',7,'e_76920bdeb0876d5c44342b6adb2c8c6e','claim.transferred','A','main','s_d3df2bb0add4b5a5697a4443c286e7b3',5,1796078294009,'{"agent":"codex","branch":"main","claim":"c_22c1cdfaa88d5832cb9e67f5367b8ff7","expires_at_ms":null,"fence":1,"session":"s_d3df2bb0add4b5a5697a4443c286e7b3","successor":"s_6101b6bf9a27497ba12583809dc6b9e5"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',8,'e_a75bfc24e910117c327ce752c31bb2d3','claim.acquired','A','main','s_6101b6bf9a27497ba12583809dc6b9e5',5,1796078294009,'{"agent":"claude","branch":"main","claim":"c_cbf14538fd49f3954908c810871cddaf","expires_at_ms":null,"fence":2,"from_claim":"c_22c1cdfaa88d5832cb9e67f5367b8ff7","session":"s_6101b6bf9a27497ba12583809dc6b9e5"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',9,'e_864aa92463a7d0b41cad837acfc43cae','session.handed_off','A','main','s_d3df2bb0add4b5a5697a4443c286e7b3',5,1796078294009,'{"session":"s_d3df2bb0add4b5a5697a4443c286e7b3","successor":"s_6101b6bf9a27497ba12583809dc6b9e5"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',10,'e_421b008e3616ddcfc06dbcc499139f2e','evidence.added','A','main','s_6101b6bf9a27497ba12583809dc6b9e5',6,1796078295997,'{"covers":2,"evidence":"v_cebe1280c1c1ecb117209a72c65d0f1a","kind":"test-run","sha256":null}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',11,'e_83f5b7d5e7fb9fcb234acbb764be6454','work.completed','A','main','s_6101b6bf9a27497ba12583809dc6b9e5',7,1796078298077,'{"claim":"c_cbf14538fd49f3954908c810871cddaf","completion":"d_435b85f294410cf2baf1894e5bea3753","criteria":2,"evidence":["v_cebe1280c1c1ecb117209a72c65d0f1a"],"fence":2,"source":{"path":"work.yaml","sha256":"35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205"}}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',12,'e_3d5138edd23da79b78004a672219ab1a','claim.released','A','main','s_6101b6bf9a27497ba12583809dc6b9e5',8,1796078300907,'{"agent":"claude","branch":"main","claim":"c_cbf14538fd49f3954908c810871cddaf","expires_at_ms":null,"fence":2,"session":"s_6101b6bf9a27497ba12583809dc6b9e5"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',13,'e_6bbf1918be6cca602359de09a6100345','session.ended','A','main','s_6101b6bf9a27497ba12583809dc6b9e5',8,1796078300907,'{"outcome":"done","session":"s_6101b6bf9a27497ba12583809dc6b9e5"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',14,'e_4af93af8a3e286bbf58d05838038fec4','branch.created',NULL,'side',NULL,9,1796078304603,'{"branch":"side"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',15,'e_fa507aedb09f1d36223d52adc0fdd674','branch.created',NULL,'old',NULL,10,1796078307536,'{"branch":"old"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',16,'e_23da5bfdba84077cf9d3291702ae52d8','branch.closed',NULL,'old',NULL,11,1796078309660,'{"branch":"old"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',17,'e_a3a1ffbc12c238118d45a831bb03346e','branch.selected',NULL,'side',NULL,12,1796078312089,'{"before":"main","branch":"side"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',18,'e_7c0f02600fabe342c522d5aa87da8b6a','session.started','C','side','s_75b8a5e4679060a1e9a3f0d6da778ad0',13,1796078314635,'{"agent":"gemini","model":null,"predecessor":null,"provider":null,"session":"s_75b8a5e4679060a1e9a3f0d6da778ad0"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',19,'e_b4b35db0fa0caa469c8a535289c1a0fb','claim.acquired','C','side','s_75b8a5e4679060a1e9a3f0d6da778ad0',13,1796078314635,'{"agent":"gemini","branch":"side","claim":"c_c055c18e7abcd7add86505f4eebbdcf0","expires_at_ms":1796078314636,"fence":1,"session":"s_75b8a5e4679060a1e9a3f0d6da778ad0"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',20,'e_233740c4d9ecf572e54143e48cd375d6','note.taken','C','side','s_75b8a5e4679060a1e9a3f0d6da778ad0',14,1796078316852,'{"n":[1,null,true],"text":"naïve"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',21,'e_f6a104dcc5cf970afeea11dd00b10924','claim.expired','C','side','s_75b8a5e4679060a1e9a3f0d6da778ad0',15,1796078319290,'{"agent":"gemini","branch":"side","claim":"c_c055c18e7abcd7add86505f4eebbdcf0","expires_at_ms":1796078314636,"fence":1,"session":"s_75b8a5e4679060a1e9a3f0d6da778ad0"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',22,'e_60de7139d66c3361a7c51dbb8ca8cd7b','session.interrupted','C','side','s_75b8a5e4679060a1e9a3f0d6da778ad0',15,1796078319290,'{"session":"s_75b8a5e4679060a1e9a3f0d6da778ad0"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',23,'e_e3f61ef68fe4fd8904bf570173c7cd30','session.started','C','main','s_c37330e57274c711bfa1d3f526c2ac64',16,1796078321880,'{"agent":"codex","model":null,"predecessor":null,"provider":null,"session":"s_c37330e57274c711bfa1d3f526c2ac64"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',24,'e_e55a2e4ff411efc6bfdfc12d9b28c3a5','claim.acquired','C','main','s_c37330e57274c711bfa1d3f526c2ac64',16,1796078321880,'{"agent":"codex","branch":"main","claim":"c_6495bd1ab8543fbe5fb80c8e4a9cbb2e","expires_at_ms":null,"fence":2,"session":"s_c37330e57274c711bfa1d3f526c2ac64"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',25,'e_d6fb93a95b91cdd20c3ae99e2f738245','session.started','B','side','s_cf17189e5bb3944637cfcdf2666c58af',17,1796078324579,'{"agent":"gemini","model":null,"predecessor":null,"provider":null,"session":"s_cf17189e5bb3944637cfcdf2666c58af"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',26,'e_07943dd5f6fe032e426baebd1b883bce','claim.acquired','B','side','s_cf17189e5bb3944637cfcdf2666c58af',17,1796078324579,'{"agent":"gemini","branch":"side","claim":"c_ab2bda504e11a57b73b38eb5857f7300","expires_at_ms":1796078324580,"fence":1,"session":"s_cf17189e5bb3944637cfcdf2666c58af"}');
INSERT INTO "events" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106',27,'e_3e7e8779e50d2e633b5eefddde9c9c8d','evidence.added','B','side',NULL,18,1796078326829,'{"covers":1,"evidence":"v_49174bfde88e96b9d8ec49b84ae168fe","kind":"seen","sha256":null}');
CREATE TABLE evidence (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	work TEXT NOT NULL, 
	branch TEXT NOT NULL, 
	session TEXT, 
	agent TEXT, 
	kind TEXT NOT NULL, 
	summary TEXT NOT NULL, 
	covers TEXT NOT NULL, 
	ref TEXT, 
	sha256 TEXT, 
	at_ms INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	CONSTRAINT pk_evidence PRIMARY KEY (tenant, project, id), 
	CONSTRAINT fk_evidence_tenant_project_branch FOREIGN KEY(tenant, project, branch) REFERENCES branches (tenant, project, name), 
	CONSTRAINT fk_evidence_tenant_project_session FOREIGN KEY(tenant, project, session) REFERENCES sessions (tenant, project, id), 
	CONSTRAINT uq_evidence_tenant_project_position UNIQUE (tenant, project, position)
)
 STRICT

;
INSERT INTO "evidence" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','v_cebe1280c1c1ecb117209a72c65d0f1a',1,'A','main','s_6101b6bf9a27497ba12583809dc6b9e5','claude','test-run','all green','["it runs","it is told of"]','ci/12',NULL,1796078295997,6);
INSERT INTO "evidence" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','v_49174bfde88e96b9d8ec49b84ae168fe',2,'B','side',NULL,NULL,'seen','elsewhere it is done','["other-repo:42"]',NULL,NULL,1796078326829,18);
CREATE TABLE goals (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	twin TEXT NOT NULL, 
	title TEXT NOT NULL, 
	status TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	source_file TEXT NOT NULL, 
	source_sha256 TEXT NOT NULL, 
	CONSTRAINT pk_goals PRIMARY KEY (tenant, project, "key"), 
	CONSTRAINT fk_goals_tenant_project FOREIGN KEY(tenant, project) REFERENCES projects (tenant, project), 
	CONSTRAINT uq_goals_tenant_project_twin UNIQUE (tenant, project, twin)
)
 STRICT

;
INSERT INTO "goals" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','G-1','g-1','Callboard keeps what it was told','open',1,'work.yaml','35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205');
CREATE TABLE projects (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	last_seq INTEGER NOT NULL, 
	clock_ms INTEGER NOT NULL, 
	created_at_ms INTEGER NOT NULL, 
	CONSTRAINT pk_projects PRIMARY KEY (tenant, project), 
	CONSTRAINT ck_projects_clock_ms CHECK (clock_ms BETWEEN 0 AND 9007199254740991), 
	CONSTRAINT ck_projects_revision CHECK (revision >= 1), 
	CONSTRAINT uq_projects_tenant_key UNIQUE (tenant, "key")
)
 STRICT

;
INSERT INTO "projects" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','demo',18,27,1796078326829,1796078287212);
CREATE TABLE receipts (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	request_id TEXT NOT NULL, 
	operation TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	at_ms INTEGER NOT NULL, 
	outcome TEXT NOT NULL, 
	CONSTRAINT pk_receipts PRIMARY KEY (tenant, project, request_id), 
	CONSTRAINT fk_receipts_tenant_project FOREIGN KEY(tenant, project) REFERENCES projects (tenant, project)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "receipts" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','r-complete','work complete','local','619fe8a9c526d0250ff8dd7c035788b677c035ba3f912708e1a605b40b18c112',7,1796078298077,'{"project_revision":7,"completion":"d_435b85f294410cf2baf1894e5bea3753","branch":"main","work":{"key":"A","title":"Do A","status":"open","goal":"G-1","acceptance":["it runs","it is told of"],"next_action":null,"depends_on":[],"workstream":null,"owner":null,"paths":[],"tags":[],"priority":1,"source_file":"work.yaml","source_sha256":"35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205","readiness":{"ready":false,"reasons":[{"kind":"completed","item":"A","path":["A"],"message":"''A'' was completed on this branch","claim":null}]},"claim":{"id":"c_cbf14538fd49f3954908c810871cddaf","work":"A","session":"s_6101b6bf9a27497ba12583809dc6b9e5","agent":"claude","branch":"main","state":"active","fence":2,"acquired_at_ms":1796078294009,"expires_at_ms":null,"released_at_ms":null},"completed":true,"external":[]},"event":{"id":"e_83f5b7d5e7fb9fcb234acbb764be6454","seq":11,"type":"work.completed","work":"A","branch":"main","session":"s_6101b6bf9a27497ba12583809dc6b9e5","revision":7,"at_ms":1796078298077,"body":{"claim":"c_cbf14538fd49f3954908c810871cddaf","completion":"d_435b85f294410cf2baf1894e5bea3753","criteria":2,"evidence":["v_cebe1280c1c1ecb117209a72c65d0f1a"],"fence":2,"source":{"path":"work.yaml","sha256":"35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205"}}}}');
INSERT INTO "receipts" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','r-evidence','evidence add','local','88f789541dd87077892304d8de51860c323424ca930264e6d82fea239115c178',6,1796078295997,'{"project_revision":6,"evidence":{"id":"v_cebe1280c1c1ecb117209a72c65d0f1a","work":"A","branch":"main","session":"s_6101b6bf9a27497ba12583809dc6b9e5","agent":"claude","kind":"test-run","summary":"all green","covers":["it runs","it is told of"],"ref":"ci/12","sha256":null,"at_ms":1796078295997,"revision":6,"currency":"current"},"event":{"id":"e_421b008e3616ddcfc06dbcc499139f2e","seq":10,"type":"evidence.added","work":"A","branch":"main","session":"s_6101b6bf9a27497ba12583809dc6b9e5","revision":6,"at_ms":1796078295997,"body":{"covers":2,"evidence":"v_cebe1280c1c1ecb117209a72c65d0f1a","kind":"test-run","sha256":null}}}');
INSERT INTO "receipts" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','r-note','event append','local','8097af4d68da214fc3ba1f184c63cfa274258bc26cc37b235a52a38f3b7294aa',14,1796078316852,'{"project_revision":14,"event":{"id":"e_233740c4d9ecf572e54143e48cd375d6","seq":20,"type":"note.taken","work":"C","branch":"side","session":"s_75b8a5e4679060a1e9a3f0d6da778ad0","revision":14,"at_ms":1796078316852,"body":{"n":[1,null,true],"text":"naïve"}}}');
INSERT INTO "receipts" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','r-start','session start','local','3e5e2eddf66e6d3a5ad112d150694c4b7317bf3fc1078b8c7c63736adb520069',3,1796078289824,'{"project_revision":3,"session":{"id":"s_d3df2bb0add4b5a5697a4443c286e7b3","work":"A","branch":"main","agent":"codex","provider":"openai","model":"gpt","state":"active","predecessor":null,"started_at_ms":1796078289824,"ended_at_ms":null},"claim":{"id":"c_22c1cdfaa88d5832cb9e67f5367b8ff7","work":"A","session":"s_d3df2bb0add4b5a5697a4443c286e7b3","agent":"codex","branch":"main","state":"active","fence":1,"acquired_at_ms":1796078289824,"expires_at_ms":null,"released_at_ms":null},"events":[{"id":"e_1fffd67e147b26875c83d9c185617aeb","seq":3,"type":"session.started","work":"A","branch":"main","session":"s_d3df2bb0add4b5a5697a4443c286e7b3","revision":3,"at_ms":1796078289824,"body":{"agent":"codex","model":"gpt","predecessor":null,"provider":"openai","session":"s_d3df2bb0add4b5a5697a4443c286e7b3"}},{"id":"e_b63a00896e280c737de2f4f8e64e384d","seq":4,"type":"claim.acquired","work":"A","branch":"main","session":"s_d3df2bb0add4b5a5697a4443c286e7b3","revision":3,"at_ms":1796078289824,"body":{"agent":"codex","branch":"main","claim":"c_22c1cdfaa88d5832cb9e67f5367b8ff7","expires_at_ms":null,"fence":1,"session":"s_d3df2bb0add4b5a5697a4443c286e7b3"}}]}');
CREATE TABLE selections (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	person TEXT NOT NULL, 
	branch TEXT NOT NULL, 
	CONSTRAINT pk_selections PRIMARY KEY (tenant, project, person), 
	CONSTRAINT fk_selections_tenant_project_branch FOREIGN KEY(tenant, project, branch) REFERENCES branches (tenant, project, name)
)
 STRICT

;
INSERT INTO "selections" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','self','side');
CREATE TABLE sessions (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	work TEXT NOT NULL, 
	branch TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	provider TEXT, 
	model TEXT, 
	state TEXT NOT NULL, 
	predecessor TEXT, 
	started_at_ms INTEGER NOT NULL, 
	ended_at_ms INTEGER, 
	outcome TEXT, 
	CONSTRAINT pk_sessions PRIMARY KEY (tenant, project, id), 
	CONSTRAINT ck_sessions_ended_at_ms CHECK ((state = 'active') = (ended_at_ms IS NULL)), 
	CONSTRAINT ck_sessions_state CHECK (state IN ('active', 'interrupted', 'ended', 'handed_off')), 
	CONSTRAINT fk_sessions_tenant_project_branch FOREIGN KEY(tenant, project, branch) REFERENCES branches (tenant, project, name), 
	CONSTRAINT fk_sessions_tenant_project_predecessor FOREIGN KEY(tenant, project, predecessor) REFERENCES sessions (tenant, project, id), 
	CONSTRAINT uq_sessions_tenant_project_position UNIQUE (tenant, project, position), 
	CONSTRAINT uq_sessions_tenant_project_predecessor UNIQUE (tenant, project, predecessor)
)
 STRICT

;
INSERT INTO "sessions" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','s_d3df2bb0add4b5a5697a4443c286e7b3',1,'A','main','codex','openai','gpt','handed_off',NULL,1796078289824,1796078294009,NULL);
INSERT INTO "sessions" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','s_6101b6bf9a27497ba12583809dc6b9e5',2,'A','main','claude',NULL,NULL,'ended','s_d3df2bb0add4b5a5697a4443c286e7b3',1796078294009,1796078300907,'done');
INSERT INTO "sessions" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','s_75b8a5e4679060a1e9a3f0d6da778ad0',3,'C','side','gemini',NULL,NULL,'interrupted',NULL,1796078314635,1796078319290,NULL);
INSERT INTO "sessions" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','s_c37330e57274c711bfa1d3f526c2ac64',4,'C','main','codex',NULL,NULL,'active',NULL,1796078321880,NULL,NULL);
INSERT INTO "sessions" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','s_cf17189e5bb3944637cfcdf2666c58af',5,'B','side','gemini',NULL,NULL,'active',NULL,1796078324579,NULL,NULL);
CREATE TABLE sources (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	path TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	indexed_revision INTEGER NOT NULL, 
	CONSTRAINT pk_sources PRIMARY KEY (tenant, project, path), 
	CONSTRAINT fk_sources_tenant_project FOREIGN KEY(tenant, project) REFERENCES projects (tenant, project)
)
 STRICT

;
INSERT INTO "sources" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','work.yaml','35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205',272,1,2);
CREATE TABLE work_dependencies (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	work TEXT NOT NULL, 
	depends_on TEXT NOT NULL, 
	CONSTRAINT pk_work_dependencies PRIMARY KEY (tenant, project, work, depends_on), 
	CONSTRAINT fk_work_dependencies_tenant_project_work FOREIGN KEY(tenant, project, work) REFERENCES work_items (tenant, project, "key")
)
 STRICT

;
INSERT INTO "work_dependencies" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','B','A');
INSERT INTO "work_dependencies" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','B','other-repo:42');
CREATE TABLE work_items (
	tenant TEXT NOT NULL, 
	project TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	twin TEXT NOT NULL, 
	title TEXT NOT NULL, 
	status TEXT NOT NULL, 
	goal TEXT, 
	acceptance TEXT NOT NULL, 
	next_action TEXT, 
	depends_on TEXT NOT NULL, 
	workstream TEXT, 
	owner TEXT, 
	paths TEXT NOT NULL, 
	tags TEXT NOT NULL, 
	priority INTEGER, 
	position INTEGER NOT NULL, 
	source_file TEXT NOT NULL, 
	source_sha256 TEXT NOT NULL, 
	CONSTRAINT pk_work_items PRIMARY KEY (tenant, project, "key"), 
	CONSTRAINT fk_work_items_tenant_project FOREIGN KEY(tenant, project) REFERENCES projects (tenant, project), 
	CONSTRAINT uq_work_items_tenant_project_twin UNIQUE (tenant, project, twin)
)
 STRICT

;
INSERT INTO "work_items" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','A','a','Do A','open','G-1','["it runs","it is told of"]',NULL,'[]',NULL,NULL,'[]','[]',1,1,'work.yaml','35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205');
INSERT INTO "work_items" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','B','b','Do B','open',NULL,'[]',NULL,'["A","other-repo:42"]',NULL,NULL,'[]','[]',NULL,2,'work.yaml','35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205');
INSERT INTO "work_items" VALUES('local','p_3b9d99ba8642c99b12a2d91163f5c106','C','c','Do C','open',NULL,'[]',NULL,'[]',NULL,NULL,'[]','["x","ä"]',NULL,3,'work.yaml','35ece9774962dcf0e21f6a1a545861d8eab8b9ba3171e46c395bfd3c60414205');
CREATE INDEX ix_events_tenant_project_branch_seq ON events (tenant, project, branch, seq);
CREATE INDEX ix_events_tenant_project_session_seq ON events (tenant, project, session, seq);
CREATE INDEX ix_events_tenant_project_type_seq ON events (tenant, project, type, seq);
CREATE INDEX ix_events_tenant_project_work_seq ON events (tenant, project, work, seq);
CREATE INDEX ix_work_items_tenant_project_position ON work_items (tenant, project, position);
CREATE INDEX ix_work_items_tenant_project_status ON work_items (tenant, project, status);
CREATE INDEX ix_sessions_tenant_project_state_branch_position ON sessions (tenant, project, state, branch, position);
CREATE INDEX ix_sessions_tenant_project_work_position ON sessions (tenant, project, work, position);
CREATE INDEX ix_work_dependencies_tenant_project_depends_on ON work_dependencies (tenant, project, depends_on);
CREATE INDEX ix_checkpoints_tenant_project_session_revision ON checkpoints (tenant, project, session, revision);
CREATE INDEX ix_claims_tenant_project_session_fence ON claims (tenant, project, session, fence);
CREATE INDEX ix_claims_tenant_project_state ON claims (tenant, project, state);
CREATE UNIQUE INDEX uq_claims_active ON claims (tenant, project, work) WHERE state = 'active';
CREATE INDEX ix_evidence_tenant_project_work_position ON evidence (tenant, project, work, position);
CREATE INDEX ix_completions_tenant_project_work_revision ON completions (tenant, project, work, revision);
CREATE TRIGGER keep_events_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER keep_events_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER keep_events_insert_seq BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE tenant = NEW.tenant AND project = NEW.project AND seq = NEW.seq) BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER keep_events_insert_id BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE tenant = NEW.tenant AND project = NEW.project AND id = NEW.id) BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER keep_receipts_update BEFORE UPDATE ON receipts BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;
CREATE TRIGGER keep_receipts_delete BEFORE DELETE ON receipts BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;
CREATE TRIGGER keep_receipts_insert_request_id BEFORE INSERT ON receipts WHEN EXISTS (SELECT 1 FROM receipts WHERE tenant = NEW.tenant AND project = NEW.project AND request_id = NEW.request_id) BEGIN SELECT RAISE(ABORT, 'receipts are never changed'); END;
COMMIT;
