# What `callboard exec` prints around what the agent says.

tool-call = Tool call
a-command = a command
asks = asks for permission
completed = completed
failed = failed
failed-why = failed: { $why }
cancelled = [cancelled] { $why }
ended-by = ended by { $signal }
exit-code = exit code { $code }
plan = Plan
plan-empty = Plan: no steps
diff-new = new
diff-deleted = deleted
more-lines = … { $lines ->
    [one] { $lines-text } more line
   *[other] { $lines-text } more lines
}
input-bytes = … { $bytes-text } bytes that are not shown
binary = [{ $kind }, { $bytes ->
    [one] { $bytes-text } byte
   *[other] { $bytes-text } bytes
}]

# The kinds of calls.

kind-read = read
kind-edit = edit
kind-delete = delete
kind-move = move
kind-search = search
kind-execute = execute
kind-think = think
kind-fetch = fetch
kind-switch-mode = switch_mode

# Questions and their answers.

which = Which? [1-{ $last }]
allowed-all = allowed by --approve-all
rejected-all = rejected by --deny-all
rejected-unasked = rejected: there is no terminal to ask at
sent-rejected-all = --deny-all rejects whatever is asked
sent-unasked = there is no terminal to ask at; see --approve-all

# Why a call ended, as the agent says it in English.

reason-user = Cancelled by the user.
reason-turn = Cancelled with its turn.
reason-permission = Not permitted.
reason-timeout = Ended because it took too long.
reason-shutdown = Ended because the session was closing.
reason-error = Ended by an error.
reason-dropped = Ended because nobody waited for it any more.
may-have-acted = It may have had effects already.

# The end.

background = Commands in the background end with this program: { $commands }.
nobody-asked = Something was rejected because nobody could be asked; see --approve-all.
early-cancelled = The turn ended early: it was cancelled.
early-refusal = The turn ended early: the model refused to go on.
early-tokens = The turn ended early: the reply reached the longest length that the model writes.
early-requests = The turn ended early: it made as many requests to the model as one turn may.
early-other = The turn ended early: the agent stopped it.
