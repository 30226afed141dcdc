# What `callboard exec` prints around the cards, whose own words are English.

# Questions and their answers.

which = Which? [1-{ $last }]
allowed-all = allowed by --approve-all
rejected-all = rejected by --deny-all
rejected-unasked = rejected: there is no terminal to ask at
sent-rejected-all = --deny-all rejects whatever is asked
sent-unasked = there is no terminal to ask at; see --approve-all

# The end.

background = Commands in the background end with this program: { $commands }.
nobody-asked = Something was rejected because nobody could be asked; see --approve-all.
early-cancelled = The turn ended early: it was cancelled.
early-refusal = The turn ended early: the model refused to go on.
early-tokens = The turn ended early: the reply reached the longest length that the model writes.
early-requests = The turn ended early: it made as many requests to the model as one turn may.
early-other = The turn ended early: the agent stopped it.
