# Titel von Werkzeugaufrufen, in Form und Reihenfolge wie in en.ftl.

read-file = { $path } lesen
read-file-lines = { $path } lesen, Zeilen { $first }–{ $last }
read-file-from = { $path } lesen, ab Zeile { $first }
read-file-last = { $path } lesen, die letzten { $count } Zeilen
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
undo-pending = Letzte Änderung zurücknehmen

terminal = `{ $command }` ausführen
terminal-in = `{ $command }` in { $cwd } ausführen
terminal-pending = Befehl ausführen

terminal-list = Befehle im Hintergrund auflisten
terminal-list-pending = Befehle im Hintergrund auflisten

terminal-output = Nach `{ $command }` sehen
terminal-output-ended = Nach `{ $command }` sehen, was zu Ende ist
terminal-output-pending = Nach einem Befehl im Hintergrund sehen

terminal-input = `{ $text }` in `{ $command }` eingeben
terminal-input-pending = In einen Befehl im Hintergrund eingeben

terminal-wait = Auf `{ $command }` warten
terminal-wait-pending = Auf einen Befehl im Hintergrund warten

terminal-stop = `{ $command }` beenden
terminal-stop-pending = Befehl im Hintergrund beenden

think = Überlegung: { $thought }
think-pending = Überlegung

todo-write = Plan aktualisieren: { $done } von { $count } erledigt
todo-write-pending = Plan aktualisieren

# Das Ende eines zu langen Arguments; sein Anfang steht davor.
shortened = { $start } … ({ $lines ->
    [one] 1 Zeile
   *[other] { $lines } Zeilen
}, { $bytes } Byte)
