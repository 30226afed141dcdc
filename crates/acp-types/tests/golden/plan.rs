//! Plans, which are always sent whole. Empty plans are sent too.

use acp_types::wire::{v1, v2};
use acp_types::{Plan, PlanEntry, PlanPriority, PlanStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

fn entry(content: &str, priority: PlanPriority, status: PlanStatus) -> PlanEntry {
    PlanEntry::new(content, priority, status)
}

#[test]
fn every_priority_and_status() {
    let plan = Plan::new(vec![
        entry("a", PlanPriority::High, PlanStatus::Completed),
        entry("b", PlanPriority::Medium, PlanStatus::InProgress),
        entry("c", PlanPriority::Low, PlanStatus::Pending).with_id("7".to_owned()),
        entry("d", PlanPriority::Low, PlanStatus::Cancelled),
    ]);
    assert_eq!(
        crate::json(&v1::V1Projection::new(v1::TerminalDisplay::Text).update_for_plan(&plan)),
        json!({"sessionUpdate": "plan", "entries": [
            {"content": "a", "priority": "high", "status": "completed"},
            {"content": "b", "priority": "medium", "status": "in_progress"},
            {"content": "c", "priority": "low", "status": "pending",
             "_meta": {"callboard": {"id": "7"}}},
            // v1 has no status for a cancelled entry.
            {"content": "d (cancelled)", "priority": "low", "status": "completed"},
        ]})
    );
    assert_eq!(
        crate::json(&v2::V2Projection::new().update_for_plan("p", &plan)),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [
            {"content": "a", "priority": "high", "status": "completed"},
            {"content": "b", "priority": "medium", "status": "in_progress"},
            {"content": "c", "priority": "low", "status": "pending",
             "_meta": {"callboard": {"id": "7"}}},
            {"content": "d", "priority": "low", "status": "cancelled"},
        ]}})
    );
}

#[test]
fn an_empty_plan_is_sent() {
    let plan = Plan::default();
    assert_eq!(
        crate::json(&v1::V1Projection::new(v1::TerminalDisplay::Text).update_for_plan(&plan)),
        json!({"sessionUpdate": "plan", "entries": []})
    );
    assert_eq!(
        crate::json(&v2::V2Projection::new().update_for_plan("p", &plan)),
        json!({"sessionUpdate": "plan_update",
               "plan": {"type": "items", "planId": "p", "entries": []}})
    );
}
