//! Tests of the whole system prompt, and of the parts that are left out if a tool is not available.

use acp_tools::Registry;
use pretty_assertions::assert_eq;

use super::*;

fn all_tools() -> Registry {
    Registry::builtin()
}

fn specs(registry: &Registry) -> Vec<ToolSpec> {
    let named = |name: &str| ToolSpec::new(name, String::new(), serde_json::Value::Null);
    registry.definitions_for_model().map(|tool| named(&tool.spec.name)).collect()
}

fn system_prompt_text(registry: &Registry, mode: impl Into<Option<PermissionMode>>) -> String {
    let (tools, hints, mode) = (&*specs(registry), &*registry.hints(), mode.into());
    let roots = [Path::new("/home/me/app"), Path::new("/home/me/lib")];
    let (instructions, os, date) = (None, "linux", "2026-11-22");
    render_system_prompt(&SystemPromptInputs {
        instructions,
        tools,
        hints,
        mode,
        has_sandbox: false,
        roots: &roots,
        os,
        date,
    })
}

#[test]
fn the_prompt_matches_its_stored_text() {
    let expected = include_str!("prompt.md");
    let prompt = system_prompt_text(&all_tools(), PermissionMode::Ask) + "\n";
    if prompt != expected && std::env::var_os("CALLBOARD_BLESS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/context/system_prompt/prompt.md");
        std::fs::write(file, &prompt).unwrap();
    }
    assert_eq!(prompt, expected, "CALLBOARD_BLESS=1 writes it down anew");
}

#[test]
fn each_mode_has_its_own_description_in_the_prompt() {
    let modes = PermissionMode::all();
    let prompts = modes.iter().map(|mode| system_prompt_text(&all_tools(), *mode));
    let mut prompts: Vec<_> = prompts.chain([system_prompt_text(&all_tools(), None)]).collect();
    prompts.sort();
    prompts.dedup();
    assert_eq!(prompts.len(), modes.len() + 1);
}

#[test]
fn hints_about_a_tool_are_included_only_if_the_tool_is_available() {
    let without = |missing: &str| {
        let mut tools = all_tools();
        tools.retain(|spec| spec.name != missing);
        tools
    };
    for tool in ["grep", "find_path", "read_file", "edit_file", "write_file", "todo_write"] {
        assert!(system_prompt_text(&all_tools(), PermissionMode::Ask).contains(tool), "{tool}");
        assert!(
            !system_prompt_text(&without(tool), PermissionMode::Ask).contains(&format!(" {tool}")),
            "{tool}"
        );
    }
    assert!(
        !system_prompt_text(&without("terminal"), PermissionMode::Ask).contains("start no editor")
    );
    let mut none = all_tools();
    none.retain(|_| false);
    let bare = system_prompt_text(&none, PermissionMode::Ask);
    assert!(!bare.contains("# Tools") && !bare.contains("# Permission"), "{bare}");
    assert!(bare.contains("# How to work"));
}

#[test]
fn the_prompt_stays_small() {
    for mode in PermissionMode::all() {
        let bytes = system_prompt_text(&all_tools(), *mode).len();
        assert!(bytes < 6 * 1024, "{bytes}");
    }
}

#[test]
fn the_embedders_instructions_replace_the_built_in_ones() {
    let (os, date, roots) = ("linux", "2026-11-22", [Path::new("/app")]);
    let (tools, hints) = (&*specs(&all_tools()), &*all_tools().hints());
    let (instructions, mode) = (Some("You are Ada."), Some(PermissionMode::Ask));
    let text = render_system_prompt(&SystemPromptInputs {
        instructions,
        tools,
        hints,
        mode,
        has_sandbox: false,
        roots: &roots,
        os,
        date,
    });
    assert!(text.starts_with("You are Ada.\n\n# Where you are\n"), "{text}");
    assert!(
        !text.contains("Callboard") && !text.contains(WORK_RULES) && !text.contains(ANSWER_RULES)
    );
    assert!(text.contains(TRUST_RULES) && text.contains(REJECTED_CALL_RULE));
}
