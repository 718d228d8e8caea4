//! `onceward demo` as a person runs it: exit code, and colours only where they are wanted.

#![cfg(feature = "gateway")]

use std::process::{Command, Output};

fn demo(environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onceward"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.arg("demo").envs(environment.iter().copied()).output().expect("the program runs")
}

#[test]
fn every_outcome_is_the_promised_one_and_a_pipe_gets_plain_text() {
    let output = demo(&[]);
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("8 scenes, 8 as promised"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "a pipe has no colours: {shown}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn colours_can_be_forced_and_the_gateway_of_the_demo_ignores_the_environment_of_another() {
    let output = demo(&[("CLICOLOR_FORCE", "1"), ("ONCEWARD_LIMITS__SCOPE_IN_FLIGHT", "nonsense")]);
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("\u{1b}["), "colours were asked for: {shown}");
}
