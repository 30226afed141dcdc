//! The language of titles, by the command line and the environment.

use tokio::process::Command;

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

#[tokio::test]
async fn titles_are_in_the_language_that_is_configured_or_that_of_the_environment() {
    let (english, german) = ("Read README.md", "README.md lesen");
    for (locale, env, title) in [
        (None, &[][..], english),
        (None, &[("LANG", "de_DE.UTF-8@euro")], german),
        (None, &[("LC_MESSAGES", "de_AT"), ("LANG", "en_US.UTF-8")], german),
        (None, &[("LC_ALL", "C"), ("LC_MESSAGES", "de_DE"), ("LANG", "de_DE")], english),
        (None, &[("LC_ALL", ""), ("LANG", "de")], german),
        (None, &[("LANG", "xx_YY.UTF-8")], english),
        (None, &[("CALLBOARD_LOCALE", "de"), ("LC_ALL", "en_US.UTF-8")], german),
        (None, &[("CALLBOARD_LOCALE", ""), ("LANG", "de_DE")], german),
        (Some("en"), &[("CALLBOARD_LOCALE", "de"), ("LANG", "de_DE")], english),
        (Some("de-CH"), &[("LC_ALL", "C")], german),
        (Some("no language"), &[("LANG", "de_DE")], english),
    ] {
        let scratch = Scratch::new();
        let output = Command::new(CALLBOARD)
            .args(["exec", "read README.md", "--model", "direct"])
            .args(locale.map(|locale| format!("--locale={locale}")))
            .current_dir(scratch.cwd())
            .env_clear()
            .envs(scratch.env())
            .envs(env.iter().copied())
            .output();
        let output = output.await.unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{locale:?} {env:?}: {output:?}");
        assert!(shown.contains(title), "{locale:?} {env:?}: {shown}");
    }
}
