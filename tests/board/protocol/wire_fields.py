"""The fields of the wire, written down by hand from the format's page and not from the types.

A `?` marks what may be absent. It is for tests that ask whether the types, or a ledger, keep to it.
"""

from __future__ import annotations

_REQUEST = "id kind parameters fingerprint"
WIRE = {
    "QueueCommit": "version id previous request actor policy_epoch at operations trace?",
    "Request": _REQUEST,
    "Actor": "role principal repository workflow? run_id? run_attempt? dispatch_id? claim_handle?",
    "Trace": "trace_id? span_id? publisher_attempt?",
    "OperationsParameters": "operations",
    "SubmitParameters": "nodes",
    "DispatchNextParameters": "pool max_claims max_dispatches max_bytes worker_profiles?",
    "FinishParameters": "dispatch_id claim_handle outcome",
    "CheckpointParameters": "prior_git_sha prior_tip history_sha256 state_sha256",
    "Policy": "kind epoch policy",
    "PolicyDocument": (
        "mode class_weights accounting_weights authorization? producers pools limits projectors?"
    ),
    "Projector": ("principal workflow ref pools repositories backing_issues? completion_policy?"),
    "Producer": "pools priorities fairness_keys",
    "Pool": (
        "default_profile profiles logical_limit native_limit per_account_limit? "
        "allowed_repositories max_observation_age_ms retry reconciliation"
    ),
    "Retry": "max_attempts backoff_ms",
    "Reconciliation": "max_attempts deadline_ms",
    "Profile": (
        "workflow ref principal? trust_domain credential_scope effect_scope max_claims share_keys "
        "logical_contract?"
    ),
    "Limits": (
        "ledger_bytes recovery_bytes payload_bytes graph_nodes predecessors pending_nodes "
        "operations assignment_bytes result_bytes evidence_bytes observation_writes"
    ),
    "Work": (
        "kind work_id graph_id node_key pool priority fairness_key worker_profile "
        "batch_trust_domain payload depends_on enqueued subject? replacement_of? "
        "logical_contract? execution_ref? backing_issue?"
    ),
    "WorkDependency": "kind work_id",
    "IssueDependency": "kind resource condition",
    "PullRequestDependency": "kind resource condition",
    "Resource": "kind host repository repository_id resource_id number",
    "Replacement": "work_id disposition evidence",
    "Claim": "kind work_id claim_id dispatch_id handle observations",
    "Completion": "kind work_id claim_id dispatch_id claim_handle run_id run_attempt",
    "Dispatch": "kind dispatch_id state sender? credential_principal? run? evidence? reason?",
    "Run": "run_id run_attempt repository workflow ref principal event",
    "Evidence": (
        "kind source repository workflow ref principal checked_at run_id? run_attempt? status? "
        "conclusion? receipt? attempts? effects?"
    ),
    "Result": "kind work_id claim_id completion_id descriptor evidence",
    "DeliveryFailure": "kind work_id claim_id completion_id reason disposition evidence",
    "Observation": (
        "kind observation_id resource condition state observed_at credential_generation "
        "source_updated_at? read_status state_reason? resource_state? merged? merge_commit?"
    ),
    "ClaimCancellation": "kind work_id claim_id reason retry_not_before",
    "WorkCancellation": "kind work_id reason claim_id?",
    "Release": "kind dispatch_id evidence",
    "Control": "kind control value reason",
    "Deployment": (
        "kind pool worker_profile expected_ref expected_contract profile available activate? reason"
    ),
    "WorkPriority": "kind work_id priority expected_priority reason",
    "IssueLink": "kind work_id resource projector_ref claim_id?",
    "IssueComment": "kind work_id comment_id projector_ref claim_id? authority_claim_id?",
    "Checkpoint": "kind prior_git_sha prior_tip history_sha256 state_sha256 state",
    "Assignment": (
        "version dispatch_id request_id commit_id policy_epoch pool worker_profile claims"
    ),
    "AssignedClaim": "handle claim_id work_id work result_refs",
    "ResultReference": "work_id result_commit_id descriptor",
}


def wire_fields(record: str) -> dict[str, bool]:
    """The fields of a record, each with whether it must be there."""
    name = "Request" if record.endswith("Request") else record
    words = WIRE[name].split()
    return {word.rstrip("?"): not word.endswith("?") for word in words}
