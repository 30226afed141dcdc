# The names of permission options, and what they cover.

allow-once = Allow once
reject-once = Reject once
allow-always = Always allow { $what } { $scope ->
    [project] in this project
   *[session] in this session
}
reject-always = Always reject { $what } { $scope ->
    [project] in this project
   *[session] in this session
}

what-read = reading { $path }
what-search = searching { $path }
what-write = changing { $path }
what-delete = deleting { $path }
what-run = `{ $command }`
what-run-in = `{ $command }` in { $cwd }
what-connect = connecting to { $host }
what-mcp = { $tool } of { $server }
what-mcp-all = all tools of { $server }
what-tool = the tool { $tool }
what-kind = tools of the kind { $kind }
what-commands = commands that begin with `{ $prefix }`
what-unknown = what is not known
