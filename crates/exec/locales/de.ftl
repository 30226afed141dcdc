# Texte von `callboard exec`: die Karten und die Meldungen um die Karten herum.

tool-call = Aufruf
a-command = ein Befehl
asks = bittet um Erlaubnis
completed = abgeschlossen
failed = fehlgeschlagen
failed-why = fehlgeschlagen: { $why }
cancelled = [abgebrochen] { $why }
ended-by = beendet durch { $signal }
exit-code = Exit-Code { $code }
plan = Plan
plan-empty = Plan: keine Schritte
diff-new = neu
diff-deleted = gelöscht
diff-no-newline = Kein Zeilenumbruch am Dateiende
more-lines = … { $lines ->
    [one] { $lines-text } weitere Zeile
   *[other] { $lines-text } weitere Zeilen
}
input-bytes = … { $bytes-text } Byte, die nicht gezeigt werden
binary = [{ $kind }, { $bytes ->
    [one] { $bytes-text } Byte
   *[other] { $bytes-text } Byte
}]

# Die Arten von Aufrufen.

kind-read = Lesen
kind-edit = Änderung
kind-delete = Löschung
kind-move = Verschiebung
kind-search = Suche
kind-execute = Befehl
kind-think = Überlegung
kind-fetch = Abruf
kind-switch-mode = Moduswechsel

# Fragen und ihre Antworten.

which = Welche? [1-{ $last }]
which-help = Gib eine Zahl von 1 bis { $last } ein, oder j, um diesen Aufruf einmal zu erlauben, oder n, um ihn einmal abzulehnen. Strg-C beendet das Programm.
which-unanswered = Es gab keine gültige Antwort, daher wird der Zug abgebrochen.
allowed-all = erlaubt durch --approve-all
rejected-all = abgelehnt durch --deny-all
rejected-unasked = abgelehnt: Es gibt kein Terminal für eine Frage
sent-rejected-all = --deny-all lehnt jede Frage ab
sent-unasked = es gibt kein Terminal für eine Frage; siehe --approve-all

# Gründe für das Ende eines Aufrufs.

reason-user = Vom Benutzer abgebrochen.
reason-approver = Von der prüfenden Stelle abgelehnt.
reason-turn = Mit dem ganzen Zug abgebrochen.
reason-permission = Nicht erlaubt.
reason-timeout = Beendet, weil es zu lange dauerte.
reason-shutdown = Beendet, weil die Sitzung geschlossen wurde.
reason-error = Durch einen Fehler beendet.
reason-dropped = Beendet, weil niemand mehr darauf wartete.
may-have-acted = Es hat vielleicht schon etwas bewirkt.

# Meldungen am Ende eines Laufs.

background = Befehle im Hintergrund enden mit diesem Programm: { $commands }.
nobody-asked = Etwas wurde abgelehnt, weil niemand gefragt werden konnte; siehe --approve-all.
interrupted = Unterbrochen.
early-cancelled = Vorzeitig beendet: Es wurde abgebrochen.
early-refusal = Vorzeitig beendet: Das Modell wollte nicht weitermachen.
early-tokens = Vorzeitig beendet: Die Antwort ist so lang, wie das Modell höchstens schreibt.
early-requests = Vorzeitig beendet: Es gab so viele Anfragen an das Modell wie höchstens erlaubt.
early-other = Vorzeitig beendet: Der Agent hat angehalten.
