# Titel von Werkzeugaufrufen und Hinweise, in Form und Reihenfolge wie in en.ftl.

read-file = { $path } lesen
read-file-lines = { $path } lesen, Zeilen { $first }–{ $last }
read-file-from = { $path } lesen, ab Zeile { $first }
read-file-last = { $path } lesen, die letzten { $count } Zeilen
read-file-of-last = { $path } lesen, die ersten { $lines } der letzten { $count } Zeilen
read-file-last-line = { $path } lesen, die letzte Zeile
read-file-pending = Datei lesen

list-directory = { $path } auflisten
list-directory-here = Arbeitsverzeichnis auflisten
list-directory-pending = Verzeichnis auflisten

find-path = Dateien `{ $pattern }` in { $path } suchen
find-path-here = Dateien `{ $pattern }` suchen
find-path-pending = Dateien nach Namen suchen

grep = Nach `{ $pattern }` in { $path } suchen
grep-here = Nach `{ $pattern }` suchen
grep-pending = In Dateien suchen

write-file = { $path } schreiben
write-file-pending = Datei schreiben

edit-file = { $path } bearbeiten
edit-file-pending = Datei bearbeiten

delete-path = { $path } löschen
delete-path-pending = Datei löschen

move-path = { $from } nach { $to } verschieben
move-path-pending = Datei verschieben

undo = Letzte Änderung zurücknehmen
rewind = Zum Stand vor Eingabe { $prompt } zurückkehren
rewind-pending = Zu einer früheren Eingabe zurückkehren
undo-pending = Letzte Änderung zurücknehmen

terminal = `{ $command }` ausführen
terminal-in = `{ $command }` in { $cwd } ausführen
terminal-pending = Befehl ausführen

terminal-list = Befehle im Hintergrund auflisten

terminal-output = Nach `{ $command }` sehen
terminal-output-ended = Nach `{ $command }` sehen, was zu Ende ist
terminal-output-pending = Nach einem Befehl im Hintergrund sehen

terminal-input = `{ $text }` in `{ $command }` eingeben
terminal-input-pending = In einen Befehl im Hintergrund eingeben

terminal-wait = Auf `{ $command }` warten

terminal-stop = `{ $command }` beenden
terminal-stop-pending = Befehl im Hintergrund beenden

fetch = { $url } abrufen
fetch-from = { $url } abrufen, ab Zeile { $first }
fetch-pending = Seite abrufen

web-search = Im Web nach `{ $query }` suchen
web-search-pending = Im Web suchen

think = Überlegung: { $thought }
think-pending = Überlegung
mcp = { $tool } ({ $server }) { $arguments }
mcp-plain = { $tool } ({ $server })
mcp-pending = Werkzeug eines Servers

find-tool = Werkzeuge für `{ $query }` suchen
find-tool-pending = Werkzeuge suchen

todo-write = Plan aktualisieren: { $done } von { $count } erledigt
todo-write-pending = Plan aktualisieren

# Das Ende eines zu langen Arguments; sein Anfang steht davor.
shortened = { $start } … ({ $lines ->
    [one] 1 Zeile
   *[other] { $lines } Zeilen
}, { $bytes } Byte)

# Hinweise: was wissen soll, wer einen Aufruf erlaubt.

text = { $text }
thousands = .

outside = Außerhalb der Projektordner: { $path }
no-sandbox = Er läuft ohne Sandbox: { $reason }.
outside-sandbox = Er läuft außerhalb der Sandbox. Grund: { $why }
typing-outside-sandbox = Der Befehl läuft außerhalb der Sandbox, deshalb wird vor jeder Eingabe gefragt.
outside-sandbox-stopped = Er läuft außerhalb der Sandbox, die ihn vielleicht aufgehalten hat ({ $line }). Grund: { $why }
connects = Der Befehl will sich mit { $host } verbinden.
connects-upstream = Der Befehl will sich mit { $host } verbinden, über den Proxy aus deiner Umgebung.
fetch-by-proxy = Der Proxy aus deiner Umgebung verbindet mit { $host }, deshalb wird die Adresse nicht geprüft.
fetch-redirect = Die Seite leitet weiter zu { $host }.
fetch-redirect-by-proxy = Die Seite leitet weiter zu { $host }. Der Proxy aus deiner Umgebung verbindet damit, deshalb wird die Adresse nicht geprüft.
protected-changed = Der Befehl hat geschützte Dateien geändert, und das konnte NICHT rückgängig gemacht werden: { $names }. Sieh sie an, bevor du in diesem Ordner andere Programme benutzt.
protected-changed-in-background = Während der Befehl im Hintergrund lief, hat er oder ein anderes Programm geschützte Dateien geändert: { $names }. Sieh sie an, bevor du in diesem Ordner andere Programme benutzt.
mcp-changed = Die Definition dieses Werkzeugs oder sein Server hat sich geändert, seit es erlaubt wurde. Der Server beschreibt das Werkzeug jetzt so: { $now }
mcp-description-changed = Die Beschreibung dieses Werkzeugs hat sich in dieser Sitzung geändert. Vorher: { $before } Jetzt: { $now }
mcp-schema-changed = Die Argumente dieses Werkzeugs oder die Hinweise auf seine Wirkung haben sich in dieser Sitzung geändert. Die Beschreibung ist dieselbe.
mcp-elicitation = Der MCP-Server { $server } fragt: { $message }
mcp-sampling = Der Server will das Modell fragen, verbraucht damit deine Token und bekommt die Antwort. Seine Frage:
mcp-sampled = Die Antwort des Modells an den Server:
sandbox-hides-nothing = Die Sandbox dieses Systems kann deine Schlüssel und den Zustand des Agenten hier nicht verbergen, weil der Projektordner sie enthält.
sandbox-background = Die Sandbox dieses Systems kann Änderungen geschützter Dateien durch einen Befehl im Hintergrund nicht rückgängig machen.
protected-restored = Der Befehl hat geschützte Dateien geändert; das wurde rückgängig gemacht: { $names }. Die geänderten liegen daneben, mit .changed-by-command im Namen.
made-names = Während der Befehl lief, wurden ausführbare Dateien oder Namen mit Punkt erzeugt oder geändert: { $names }
made-names-and-more = Während der Befehl lief, wurden ausführbare Dateien oder Namen mit Punkt erzeugt oder geändert, vielleicht noch mehr: { $names }
made-names-unknown = Das Projekt ist zu groß, um alle ausführbaren Dateien und Namen mit Punkt zu finden, die Befehle erzeugen.
refused-hosts = Abgelehnte Verbindungen: { $hosts }
timed-out = Er wurde nach seiner Frist von { $ms-text } ms beendet.
waited-for-input = Er wurde beendet, weil er vielleicht auf eine Eingabe wartete, die es nicht gibt.
left-over = { $processes ->
    [one] Ein Prozess, der von ihm noch lief, wurde beendet.
   *[other] { $processes-text } Prozesse, die von ihm noch liefen, wurden beendet.
}
client-kill-failed = Der Client konnte den Befehl nicht beenden, der vielleicht noch läuft: { $error }
client-output-missing = Der Client lieferte die Ausgabe des Befehls nicht: { $error }
sandbox-stopped = Der Befehl lief in einer Sandbox: Er kann nur die Projektordner und /tmp ändern, keine Dateien lesen, die eine Regel verbirgt, und nur erlaubte Rechner erreichen. Vielleicht hat ihn das aufgehalten: { $line }. Falls ja, ruf ihn nochmals mit outside_sandbox auf; dann wird gefragt.

preview-question = Der Befehl lief in einer Kopie der Projektordner, ohne Zugang zum Netz. Wenn du es erlaubst, werden genau diese Änderungen in die Projektordner übernommen.
preview-no-changes = Der Befehl lief in einer Kopie der Projektordner, ohne Zugang zum Netz. Er hat keine Dateien geändert.
preview-applied = Der Befehl lief in einer Kopie der Projektordner, ohne Zugang zum Netz. Seine Änderungen wurden erlaubt und in die Projektordner übernommen.
preview-rejected = Der Befehl lief nur in einer Kopie der Projektordner. Seine Änderungen wurden nicht übernommen.
preview-again = Ein anderes Programm hat dieselben Dateien geändert, deshalb lief der Befehl noch einmal in einer neuen Kopie.
preview-failed-command = Der Befehl ist gescheitert ({ $how }).
preview-path-note = { $path }: { $what }
preview-folder = Legt den Ordner { $path } an
preview-mode = Die Dateirechte von { $path } ändern sich von { $before } zu { $after }.
preview-executable = Die neue Datei { $path } ist ausführbar (Rechte { $after }).
preview-no-text = Der neue Inhalt von { $path } ist kein Text: { $bytes ->
    [one] { $bytes-text } Byte
   *[other] { $bytes-text } Byte
}.
preview-link = Legt { $path } an, einen Link auf { $target }.
preview-repository = Im Ordner .git { $files ->
    [one] ändert sich { $files-text } Datei
   *[other] ändern sich { $files-text } Dateien
}. Diese Änderungen werden nicht gezeigt.
preview-generated = { $path } ändert sich: { $files ->
    [one] { $files-text } Datei
   *[other] { $files-text } Dateien
}, { $bytes ->
    [one] { $bytes-text } Byte
   *[other] { $bytes-text } Byte
}. Sein Inhalt wird automatisch erzeugt; diese Änderungen werden nicht gezeigt und können nicht rückgängig gemacht werden.
preview-generated-removed = { $path } ändert sich: { $files ->
    [one] { $files-text } Datei
   *[other] { $files-text } Dateien
}, { $bytes ->
    [one] { $bytes-text } Byte
   *[other] { $bytes-text } Byte
}; { $removed ->
    [one] { $removed-text } Datei oder Ordner wird
   *[other] { $removed-text } Dateien und Ordner werden
} entfernt. Sein Inhalt wird automatisch erzeugt; diese Änderungen werden nicht gezeigt und können nicht rückgängig gemacht werden.
preview-skipped-modes = Nicht übernommen: neue Rechte der Ordner { $names }.
preview-hidden = Manche Inhalte werden nicht gezeigt, weil das Lesen eine Erlaubnis braucht: { $names }
preview-denied = Eine Regel verbietet, { $path } zu ändern, deshalb wird keine der Änderungen übernommen.
preview-not-for = Die Konfiguration verlangt eine Vorschau (terminal.preview), aber Befehle im Hintergrund oder mit Eingabe haben keine. Wenn du den Befehl erlaubst, ändert er die Projektordner direkt.
no-preview-network-unknown = er wahrscheinlich ein Netz braucht, das eine Vorschau nicht hat
preview-skipped = Nicht übernommen: { $names }. Neue geschützte Namen, Sockets, Pipes und Geräte werden nie übernommen.
preview-unavailable = Die Konfiguration verlangt eine Vorschau (terminal.preview), aber in diesen Projektordnern ist keine möglich. Wenn du den Befehl erlaubst, ändert er sie direkt.
no-preview = Für den Befehl gibt es keine Vorschau, weil { $why }. Im Projekt wurde nichts geändert.
no-preview-question = Wenn du den Befehl jetzt erlaubst, läuft er in den Projektordnern und ändert sie direkt.
no-preview-outdated = andere Programme dieselben Dateien immer wieder ändern
no-preview-network = er sich mit { $hosts } verbinden will und eine Vorschau kein Netz hat
no-preview-large = er mehr als { $paths-text } Pfade oder { $mebibytes-text } MiB ändert
no-preview-hard-links = er { $path } ändert, eine Datei mit mehreren Hardlinks, die eine Kopie trennt
no-preview-rename = er gescheitert ist, wahrscheinlich weil sich Ordner des Projekts in einer Kopie nicht umbenennen lassen
no-preview-unreadable = { $path } nicht verglichen werden kann ({ $why })
no-preview-inapplicable = seine Änderungen nicht übernommen werden können ({ $why })
no-preview-timeout = er nicht innerhalb der Zeitgrenze endete
no-preview-sandbox = keine Kopie der Projektordner möglich ist ({ $why })

unrecorded-project = Änderungen durch Befehle können nicht rückgängig gemacht werden, weil die Projektordner mehr als { $entries-text } Dateien und Ordner enthalten.
unrecorded-slow = Die Änderungen dieses Befehls können nicht rückgängig gemacht werden, weil das Lesen der Projektordner zu lange gedauert hat.
unrecorded-many = Der Befehl hat mehr als { $paths-text } Dateien und Ordner geändert, deshalb können seine Änderungen nicht rückgängig gemacht werden.
unrecorded-paths = Diese Änderungen des Befehls können nicht rückgängig gemacht werden: { $names }
unrecorded-commit = Der Befehl hat den Branch, einen Commit oder den Stash eines Git-Repositorys geändert. Rückgängig gemacht werden nur die Dateien.
unrecorded-background = Änderungen, die der Befehl von jetzt an macht, können nicht rückgängig gemacht werden.

change-add = Legt { $path } an
change-modify = Ändert { $path }
change-delete = Löscht { $path }
change-move = Verschiebt { $from } nach { $path }
change-copy = Kopiert { $from } nach { $path }

lines-not-shown = { $path }: +{ $added } −{ $removed } weitere { $lines ->
    [one] Zeile wird
   *[other] Zeilen werden
} nicht gezeigt.
lines-not-listed = { $path }: +{ $added } −{ $removed } weitere { $lines ->
    [one] Zeile ist
   *[other] Zeilen sind
} nicht aufgeführt.
files-not-shown = { $files } weitere Dateien mit +{ $added } −{ $removed } Zeilen werden nicht gezeigt: { $named }.
files-not-shown-more = { $files } weitere Dateien mit +{ $added } −{ $removed } Zeilen werden nicht gezeigt: { $named } und { $more } mehr.
whole-change = Die ganze Änderung

unread = Diese Sitzung hat { $path } nicht gelesen, und der ganze Inhalt wird ersetzt.
invalid-utf8 = Der alte Inhalt von { $path } ist kein gültiges UTF-8. Die ungültigen Bytes werden in der Form \xff gezeigt und gehen verloren.
kept = Die Datei behält { $what }.
kept-encoding = ihre Kodierung ({ $encoding })
kept-guessed-encoding = ihre Kodierung ({ $encoding }, geraten)
kept-line-ends = ihre Zeilenenden ({ $name })
kept-mark = ihr Byte Order Mark

unchanged = In { $path } ändert sich nichts: Der Inhalt bleibt derselbe.
applied = In { $path } ändert sich nichts: new_text steht schon dort, in Zeile { $line }. Wenn es ein weiteres Mal gemeint ist, braucht es occurrence.
applied-of = In { $path } ändert sich durch Ersetzung { $edit } von { $edits } nichts: new_text steht schon dort, in Zeile { $line }. Wenn es ein weiteres Mal gemeint ist, braucht es occurrence.
stale = { $path } wurde anderswo geändert, seit sie gelesen wurde.

unsaved-left = { $path } hat im Editor ungespeicherte Änderungen. Nur die Datei auf der Platte wird gelöscht oder verschoben.
unsaved = { $path } hat im Editor Änderungen, die nicht gespeichert sind: Geändert wird der Text des Editors, nicht der auf der Platte.
not-on-disk = { $path } ist noch nicht auf der Platte: Geändert wird der Text im Editor.
unknown = Ob { $path } im Editor Änderungen hat, die nicht gespeichert sind, ist nicht bekannt: { $why }.
unknown-too-large = sie ist zu groß, um danach zu fragen
unknown-garbled = ihr Text dort ist ein anderer als auf der Platte, aber ihm fehlen Zeichen, die der Editor nicht lesen konnte

torn = Wird an Ort und Stelle geschrieben, ohne Kopie für eine Reparatur: { $paths }. Ein Absturz währenddessen kann Teile des alten und des neuen Texts hinterlassen.
unkept = Was ersetzt wird, lässt sich danach nicht wiederherstellen: { $why }.
keeps-nothing = diese Sitzung hebt nichts von dem auf, was sie ändert
keeps-nowhere = in den Zustandsordner { $folder } lässt sich nicht schreiben ({ $why }); machen Sie dort Platz, machen Sie ihn beschreibbar, oder setzen Sie XDG_STATE_HOME auf einen beschreibbaren Ordner

directory = Ein Verzeichnis mit { $entries ->
    [one] einer Datei oder einem Verzeichnis
   *[other] { $entries-text } Dateien und Verzeichnissen
}, { $bytes ->
    [one] { $bytes-text } Byte
   *[other] { $bytes-text } Byte
}.
directory-at-least = Ein Verzeichnis mit mindestens { $entries ->
    [one] einer Datei oder einem Verzeichnis
   *[other] { $entries-text } Dateien und Verzeichnissen
}, { $bytes ->
    [one] { $bytes-text } Byte
   *[other] { $bytes-text } Byte
}.
kept-once = Wiederherstellen lässt es sich nur bis zur nächsten Änderung einer Datei: Es hat mehr als { $bytes-text } Byte.
lost = Danach lässt es sich nicht wiederherstellen: { $why }.
lost-directory = es ist ein Ordner und liegt auf einem anderen Dateisystem als das, was aufgehoben wird
lost-large = es hat mehr als ein GiB und liegt auf einem anderen Dateisystem als das, was aufgehoben wird

rewind-unrecorded = Änderungen dieser Befehle werden nicht rückgängig gemacht, weil sie im Hintergrund liefen oder unterbrochen wurden: { $commands }.
rewind-removes = Eingabe { $prompt } und alles danach würden aus dieser Sitzung entfernt.
stays = { $path } bleibt, wie es ist: { $why }.
stays-moved = Der Inhalt von { $from } bleibt, wie er ist: { $why }. Die Datei kommt nach { $path }.
stays-folder = Einige Änderungen im Projektordner { $path } werden nicht zurückgenommen: { $why }.
stays-kept = { $path } bleibt, wie es ist: { $why }. Was es vor der letzten Änderung war, liegt in { $kept }.
stays-not-kept = was vorher da war, ist nicht aufgehoben
stays-skipped = eine frühere Rücknahme hat es nicht geändert
stays-many = ein Befehl hat zu viele Dateien und Ordner geändert
stays-unread = der Ordner konnte nach einem Befehl nicht ganz gelesen werden, deshalb sind die Änderungen nicht bekannt
stays-not-permitted = es darf nicht geändert werden
stays-changed = etwas anderes hat es seitdem geändert
stays-not-empty = der Ordner ist nicht leer
stays-gone = es ist nicht mehr da
stays-taken = etwas anderes hat inzwischen diesen Namen
stays-folder-taken = eine Datei hat inzwischen den Namen ihres Ordners
stays-former-taken = etwas anderes hat inzwischen den früheren Namen
removes-empty = Löscht diese Ordner, falls sie sonst nichts enthalten: { $paths }.
stays-folders = Diese Ordner bleiben, weil sie nicht leer sind oder nicht gelöscht werden können: { $names }
undo-before = Beim nächsten Mal wird die Änderung davor zurückgenommen.
late = Ein anderes Programm hat in { $path } geschrieben, nachdem sie ersetzt war, was man ihr nicht ansieht. Was es schrieb, liegt in { $kept }.
late-undoable = Ein anderes Programm hat in { $path } geschrieben, nachdem sie ersetzt war, was man ihr nicht ansieht. Was es schrieb, liegt in { $kept }; es kommt wieder, wenn jene Änderung zurückgenommen wird und sich die Datei vorher nicht ändert.
late-in-place = Ein anderes Programm hat in { $path } geschrieben, während sie an Ort und Stelle geschrieben wurde: Sie enthält vielleicht Teile von beidem. Sie sollte noch einmal gelesen werden.

# Warum nach einem Befehl jedes Mal gefragt wird.

risks = Danach wird jedes Mal gefragt: { $reasons }.
risks-more = Danach wird jedes Mal gefragt: { $reasons }; und { $more } weitere Gründe.
risk-part-of-line = es ist ein Teil einer Zeile oder enthält Tasten, die eine ändern
risk-too-long = er ist zu lang, um gelesen zu werden
risk-too-many-parts = er hat zu viele Teile, um gelesen zu werden
risk-too-deep = er ist zu tief verschachtelt, um gelesen zu werden
risk-unclear = er hat kein Ende oder enthält, was nicht verstanden wird
risk-too-many-texts = er enthält zu viele Befehle für andere Shells, um gelesen zu werden
risk-too-many-files = er nennt zu viele Dateien, um nach allen zu sehen
risk-many-words = welches Programm er unter so vielen Wörtern startet, wird nicht gesucht
risk-writes-outside = er schreibt { $path }, außerhalb der Wurzeln
risk-writes-protected = er schreibt { $path }, was geschützt ist
risk-writes-dangling = er schreibt { $path }, einen Link, der noch ins Leere führt
risk-writes-shared = er schreibt { $path }, was anderswo weitere Namen hat
risk-removes-protected = er löscht oder verschiebt { $path }, was geschützt ist
risk-removes-directory = er löscht oder verschiebt den Ordner { $path }, dessen Inhalt nicht geprüft wird
risk-names-protected = er nennt { $path }, was geschützt ist
risk-names-secret = er nennt { $name }, was Zugangsdaten oder einen Verlauf enthält
risk-names-process = er nennt { $name }, was zeigt, was andere Programme enthalten
risk-enters-link = er geht nach { $path }, was durch einen Link ein anderer Ort ist
risk-empties-link = er löscht in { $path }, was durch einen Link ein anderer Ort ist
risk-removes-vital = er löscht { $path }, was eine Wurzel, ein Home-Verzeichnis, alles darin, was git aufhebt, oder außerhalb der Wurzeln sein kann
risk-finds-outside = er ruft ein Programm auf, das die Dateien unter { $path } ändern kann, außerhalb der Wurzeln
risk-unknown-program = welches Programm { $program } ist, weiß man erst, wenn er läuft
risk-unknown-removal = welche Dateien er löscht, weiß man erst, wenn er läuft
risk-unknown-script = welches Skript er startet, weiß man erst, wenn er läuft
risk-unknown-code = was eine Shell ausführen soll, weiß man erst dann
risk-unknown-target = wohin er { $path } schreibt, weiß man erst, wenn er läuft
risk-sets-variable = er setzt { $variable }, was ändern kann, was Programme tun
risk-sets-unknown = { $variable } kann Variablen setzen oder entfernen, die ändern, was Programme tun
risk-shell-option = die Option { $option } ändert, wie die Shell Befehle ausführt
risk-evaluates = { $word } kann ausführen, was darin steht
risk-aliases = { $name } lässt die Shell etwas anderes ausführen
risk-redefines = er definiert eine Funktion { $name }, die einen Befehl dieses Namens ersetzt
risk-other-user = { $name } führt etwas als anderer Benutzer aus
risk-overwrites = { $name } überschreibt Dateien oder Platten endgültig
risk-overwrites-device = dd überschreibt ein Gerät
risk-stops-machine = { $name } hält den Rechner an
risk-runs-later = { $name } lässt etwas später laufen
risk-shows-typed = { $name } zeigt oder ändert, was getippt wurde
risk-runs-text = { $name } führt einen Text als Befehl aus
risk-runs-own = { $name } führt eigene Befehle aus
risk-runs-input = { $name } führt aus, was es liest
risk-publishes = { $name } publish lässt sich nicht zurücknehmen
risk-lets-write = chmod lässt alle schreiben
risk-git-sets = er setzt, was git ausführt
risk-git-clean = git clean löscht, was git nicht aufhebt
risk-git-push = git push überschreibt oder löscht, was dort ist
risk-git-runs = git führt aus, was ihm gesagt wird
risk-shell-first = einer Shell wird gesagt, was sie zuerst ausführen soll
risk-shell-input = eine Shell führt aus, was sie liest
risk-other-shell = die Befehle von { $name } werden nicht verstanden
risk-shell-unclear = wie eine Shell gestartet wird, wird nicht verstanden
