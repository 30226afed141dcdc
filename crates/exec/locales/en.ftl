# Messages of `callboard exec` around the cards. The cards' own texts are in English by default.

# Questions and their answers.

which = Which? [1-{ $last }]
which-help = Type a number from 1 to { $last }, y to allow this call once, or n to reject it once. Ctrl-C ends the program.
which-unanswered = There was no valid answer, so the turn is cancelled.
allowed-all = allowed by --approve-all
rejected-all = rejected by --deny-all
rejected-unasked = rejected: there is no terminal to ask at
sent-rejected-all = --deny-all rejects whatever is asked
sent-unasked = there is no terminal to ask at; see --approve-all

# Messages at the end of a run.

background = Commands in the background end with this program: { $commands }.
nobody-asked = A call was rejected because no one could be asked; see --approve-all.
interrupted = Interrupted.
early-cancelled = The turn ended early: it was cancelled.
early-refusal = The turn ended early: the model refused to continue.
early-tokens = The turn ended early: the reply reached the model's maximum length.
early-requests = The turn ended early: it reached the maximum number of model requests.
early-other = The turn ended early: the agent stopped it.
