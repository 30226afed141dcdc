//! The language of titles, notes and the output of `exec`. The command line or the environment sets
//! it.

use pretty_assertions::assert_eq;
use tokio::process::Command;

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

#[tokio::test]
async fn titles_are_in_the_language_of_the_command_line_or_the_environment() {
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

#[tokio::test]
async fn permission_requests_are_german_and_results_for_the_model_are_english() {
    let refused = "
✗ fehlgeschlagen: Nicht ausgeführt: Es gab keine Erlaubnis: --deny-all lehnt jede Frage ab.";
    let english = "Not run: permission was not granted: --deny-all rejects whatever is asked.";
    for (prompt, question) in [
        (
            "write notes.txt\n<<<\neins\n>>>",
            "
○ notes.txt schreiben  Änderung
  notes.txt  +1 −3
  @@ -1,3 +1,1 @@
  - one
  - two
  - three
  + eins
▸ bittet um Erlaubnis
  Diese Sitzung hat notes.txt nicht gelesen, und der ganze Inhalt wird ersetzt.
  ▸ abgelehnt durch --deny-all",
        ),
        (
            r#"tool move_path {"from": "src", "to": "b"}"#,
            "
▸ src nach b verschieben  Verschiebung  bittet um Erlaubnis
  from: src
  to: b
  Verschiebt /p/src nach /p/b
  Ein Verzeichnis mit einer Datei oder einem Verzeichnis, 27 Byte.
  Danach wird jedes Mal gefragt: er löscht oder verschiebt den Ordner src, dessen Inhalt nicht geprüft wird.
  ▸ abgelehnt durch --deny-all",
        ),
        (
            "run sudo true",
            "
▸ `sudo true` ausführen  Befehl  bittet um Erlaubnis
  Danach wird jedes Mal gefragt: sudo führt etwas als anderer Benutzer aus.
  ▸ abgelehnt durch --deny-all",
        ),
    ] {
        let scratch = Scratch::new();
        let output = Command::new(CALLBOARD)
            .args([
                "exec",
                prompt,
                "--model",
                "direct",
                "--locale",
                "de",
                "--deny-all",
                "--no-sandbox",
            ])
            .current_dir(scratch.cwd())
            .env_clear()
            .envs(scratch.env())
            .output();
        let shown = String::from_utf8(output.await.unwrap().stdout).unwrap();
        let shown = shown.replace(&scratch.cwd().display().to_string(), "/p");
        let (calls, said) = shown.split_at(shown.find("\n1 call").unwrap());
        assert_eq!(calls.trim(), format!("{question}{refused}").trim(), "{prompt}");
        assert!(said.contains(english), "{prompt}: {said}");
    }
}
