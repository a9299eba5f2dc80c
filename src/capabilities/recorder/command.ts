import { Command } from 'commander'
import { API_URL, collect } from '../../cli/flags.js'
import type { LogFlags } from './command-log.js'
import type { ReplayFlags } from './command-replay.js'

const LOG_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice log --status 4xx
  sluice log --follow --where 'res.status_code == 429'
  sluice log --follow --explain --client 203.0.113.9
  sluice log exch_2x8… --explain
  sluice log --since 2026-01-31T12:00:00Z --har > shop.har

Lists recorded requests of a running process, the newest last: refused and failed ones with their reason, and a sample of the
others. The option recorder.where selects others.
--follow prints every request when it ends, recorded or not. With an id it shows one request. --explain adds the rules that ran and the
value of each part of their expressions: those of the request if they were recorded, else those of the same request with the running
configuration and its current counters; nothing is sent or counted. --where is a CEL expression over the variables of policies and of the exchange:
exchange.rule, .action, .decided, .code, .reason, .outcome, .site, .route_name, .backend_name, .duration_ms, .waf_score, .waf_rules. Values with names of secrets are
[redacted]. Exit code 0: done; 1: the API refused; 2: the command line is wrong.`

/** Adds the options that select exchanges. */
function withCriteria(command: Command): Command {
  return command
    .option('--where <expression>', 'CEL condition on finished requests')
    .option('--host <name>', 'host, or *.example.com')
    .option('--status <status>', '429, 4xx or 400-499')
    .option('--method <method>', 'request method')
    .option('--rule <name>', 'name of the rule that ended the request')
    .option('--action <type>', 'type of the action that ended the request')
    .option('--client <address>', 'client address or network')
    .option('--site <name>', 'name of the site, such as shop.example.com')
    .option('--route <name>', 'name of the route, such as shop.example.com/api, or its id')
    .option('--since <time>', 'requests that began at this time or later')
    .option('--until <time>', 'requests that began before this time')
    .option('--text <text>', 'text anywhere in the request')
}

/** `sluice log`: shows the exchanges of a running process. */
export function logCommand(): Command {
  return withCriteria(
    new Command('log')
      .description('list requests of a running process, and explain why they were allowed or denied')
      .argument('[exchange]', 'id of one request')
      .option('-f, --follow', 'print requests as they end')
      .option(
        '--explain',
        'with an id: explain the request; with --follow: explain each request (slows requests down a little)'
      )
  )
    .option('--limit <count>', 'maximum number, newest first', '20')
    .option('--json', 'print one JSON object for each request')
    .option('--har', 'print an HTTP Archive (HAR)')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .addHelpText('after', LOG_EXAMPLES)
    .action(async (id: string | undefined, flags: LogFlags) => {
      const { log } = await import('./command-log.js')
      process.exitCode = await log(id, flags)
    })
}

const REPLAY_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice replay exch_2x8…
  sluice replay exch_2x8… -X PUT -H 'x-debug: 1' -H 'cookie:' --data '{"a":2}'
  sluice replay --policy shop.yaml --where 'req.host == "shop.example.com"'
  sluice replay --policy shop.example.com/api=shop.yaml --capacity 60,80,100 --limit 50000
  sluice replay --policy shop.yaml --archive browser.har

With an id: sends the recorded request again through the running process. Rate limits count it, and the upstream answers it.
-X, --url, -H and --data change it; "-H name:" removes a header.

Without an id: nothing is sent. Recorded requests are evaluated with the running configuration and with the given policies, at the
times at which they were recorded, and the differences are counted, with examples. --capacity shows which clients other
capacities would have rejected. Requests that depend on unknown data (the answer of another server, a login, a body that was not
recorded) are "not judged". Exit code 0: sent, or no differences; 1: differences, or the API refused; 2: the command line is wrong.`

/** `sluice replay`: sends a recorded request again, or decides recorded ones by other policies. */
export function replayCommand(): Command {
  return withCriteria(
    new Command('replay')
      .description('send a recorded request again, or test a policy on recorded traffic')
      .argument('[exchange]', 'id of the request to send again')
      .option('-X, --request <method>', 'change the method')
      .option('--url <url>', 'change the URL')
      .option('-H, --header <name: value>', 'change a header; may be repeated', collect, [])
      .option('-d, --data <text>', 'change the body')
      .option(
        '--policy <[route=]file>',
        'policy to test, for one route or site by its name; may be repeated',
        collect,
        []
      )
      .option('--capacity <numbers>', 'capacities of rate limits to test')
      .option('--capacity-of <rule>', 'only for rate limits of this rule')
      .option('--counters <begin>', 'initial counters of rate limits: empty, or running (a copy of the current ones)')
      .option('--archive <file>', 'HTTP Archive (HAR) to use instead of recorded requests')
  )
    .option('--limit <count>', 'maximum number, newest first', '10000')
    .option('--json', 'print the response of the API as JSON')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .addHelpText('after', REPLAY_EXAMPLES)
    .action(async (id: string | undefined, flags: ReplayFlags) => {
      const { replay } = await import('./command-replay.js')
      process.exitCode = await replay(id, flags)
    })
}
