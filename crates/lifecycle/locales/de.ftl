# Die Namen der Antworten auf eine Frage um Erlaubnis, und wofür sie gelten.

allow-once = Einmal erlauben
reject-once = Einmal ablehnen
allow-always = { $what } in { $scope ->
    [project] diesem Projekt
   *[session] dieser Sitzung
} immer erlauben
reject-always = { $what } in { $scope ->
    [project] diesem Projekt
   *[session] dieser Sitzung
} immer ablehnen

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
