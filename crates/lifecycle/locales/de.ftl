# Namen der Antworten auf eine Erlaubnisanfrage, und wofür sie gelten.

allow-once = Einmal erlauben
allow-preview = Vorschau: zuerst in einer Kopie ausführen
reject-once = Einmal ablehnen
allow-always-session = { $what } in dieser Sitzung immer erlauben
allow-always-project = { $what } in diesem Projekt immer erlauben
reject-always-session = { $what } in dieser Sitzung immer ablehnen

what-read = Lesen von { $path }
what-search = Suchen in { $path }
what-write = Ändern von { $path }
what-delete = Löschen von { $path }
what-run = `{ $command }`
what-run-in = `{ $command }` in { $cwd }
what-connect = Verbinden mit { $host }
what-mcp = { $tool } von { $server }
what-mcp-all = Alle Werkzeuge von { $server }
what-tool = Das Werkzeug { $tool }
what-kind = Werkzeuge der Art { $kind }
what-commands = Befehle, die mit `{ $prefix }` beginnen,
what-unknown = Unbekanntes

# Hinweise zu einem Aufruf, der auf Erlaubnis wartet.

unseen = Vorher ohne Frage geändert: { $named }. Der Befehl kann sie ausführen.
unseen-more = Vorher ohne Frage geändert: { $named } und { $more } weitere. Der Befehl kann sie ausführen.
unseen-at-least = Vorher ohne Frage geändert: { $named } und mindestens { $more } weitere. Der Befehl kann sie ausführen.
rules-unreadable = Nach jedem Aufruf wird gefragt, weil die gespeicherten Regeln nicht lesbar sind: { $why }.
not-covered = Von der Regel für `{ $words }` nicht gedeckt: { $why }.
not-known = die Optionen von `{ $program }` sind nicht bekannt
not-a-word = `{ $word }` ist kein Wort von `{ $program }`, das verstanden wird
leads-out = `{ $word }` führt aus dem Ordner hinaus
asked-preview = Er läuft zuerst in einer Kopie der Projektordner, ohne Zugang zum Netz. Bevor seine Änderungen übernommen werden, wirst du noch einmal gefragt.
asked-sandbox = Er läuft in einer Sandbox, die deine Dateien schützt, mit Zugang zum Netz.
not-whole = Nicht alles von diesem Aufruf wird gezeigt: Geheimes ist verborgen, oder Langes ist gekürzt.
reads-first = Was sich ändern würde, wird gezeigt, sobald es gelesen werden darf.
outdated = Etwas anderes hat nach der Erlaubnis geändert, woran dieser Aufruf arbeitet; darum wurde nichts getan. Das hier tut er jetzt.

# Gründe, warum ein Aufruf nicht ausgeführt wurde.

denied-rule = Von einer Regel nicht erlaubt. Nicht ausgeführt.
denied-mode = Vom Modus der Sitzung nicht erlaubt. Nicht ausgeführt.
denied-fault = Nicht erlaubt: Was darüber entscheidet, ist durch einen eigenen Fehler gescheitert. Nicht ausgeführt.
denied-ended = Schon zu Ende. Nicht ausgeführt.
unanswered = Nicht ausgeführt: Es gab keine Erlaubnis: { $error }.
unanswered-void = Nicht ausgeführt: Die Antwort des Clients ist keine von denen, die zur Wahl standen.
unanswered-withdrawn = Nicht ausgeführt: Die Frage wurde zurückgezogen.
rejected = Vom Benutzer abgelehnt. Nicht ausgeführt.
rejected-said = Vom Benutzer abgelehnt. Nicht ausgeführt. Begründung: { $said }
rejected-approver = Von der prüfenden Stelle abgelehnt. Nicht ausgeführt.
rejected-approver-said = Von der prüfenden Stelle abgelehnt. Nicht ausgeführt. Begründung: { $said }
