import { Command } from 'commander'
import { collect } from '../../cli/commands.js'
import { API_URL } from '../site-file/command.js'
import type { LogFlags } from './command-log.js'
import type { ReplayFlags } from './command-replay.js'

const LOG_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice log --status 4xx
  sluice log --follow --where 'res.status_code == 429'
  sluice log --follow --explain --client 203.0.113.9
  sluice log exch_2x8…
  sluice log --since 2026-01-31T12:00:00Z --har > shop.har

Shows exchanges of clients that a running process has recorded, the newest last; recorder.where of its options says which it
records. --follow shows them as they end, recorded or not. An id shows all that is known of one: with its explanation, the
rules that ran with the value of each part of their expressions. --where is CEL with the variables of policies and those of the
exchange: exchange.rule, .action, .decided, .code, .outcome, .edge, .route, .backend, .duration_ms. What sounds like a secret
is [redacted]. Exit code 0: shown; 1: the API refuses; 2: the command line is wrong.`

/** Options of the criteria that exchanges are looked for by. */
function withCriteria(command: Command): Command {
  return command
    .option('--where <expression>', 'CEL over exchanges that have ended')
    .option('--host <name>', 'a host, or *.example.com')
    .option('--status <status>', '429, 4xx or 400-499')
    .option('--method <method>', 'a method')
    .option('--rule <name>', 'the rule that ended it')
    .option('--action <type>', 'the action that ended it')
    .option('--client <address>', 'an IP address or a network')
    .option('--route <id>', 'the route that took it')
    .option('--since <time>', 'it began then or later')
    .option('--until <time>', 'it began before')
    .option('--text <text>', 'a text in anything that is shown of it')
}

/** `sluice log`: shows the exchanges of a running process. */
export function logCommand(): Command {
  return withCriteria(
    new Command('log')
      .description('show exchanges of a running process, and why they were decided so')
      .argument('[exchange]', 'the id of one')
      .option('-f, --follow', 'show them as they end')
      .option('--explain', 'with --follow: explain each request (costs some time of each)')
  )
    .option('--limit <count>', 'the newest so many', '20')
    .option('--json', 'a JSON object for each')
    .option('--har', 'an HTTP Archive (HAR)')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
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
  sluice replay --policy rt_31…=shop.yaml --capacity 60,80,100 --limit 50000
  sluice replay --policy shop.yaml --archive browser.har

With an id the request is sent again through the running process, as if its client had sent it: limits count it and the
upstream answers it. -X, --url, -H and --data change it; "-H name:" takes a field away.

Without an id nothing is sent: recorded exchanges are decided once more, by what serves now and by the policies that are
given, side by side in the time in which they came, and what differs is counted, with examples. --capacity says whom other
capacities of the limits would have refused. What nothing is known of (an answer of another server, a login, a body that was
not recorded) is "not judged". Exit code 0: sent, or no difference; 1: differences, or the API refuses; 2: the command line is
wrong.`

/** `sluice replay`: sends a recorded request again, or decides recorded ones by other policies. */
export function replayCommand(): Command {
  return withCriteria(
    new Command('replay')
      .description('send a recorded request again, or try a policy on recorded traffic')
      .argument('[exchange]', 'the id of the one that is sent again')
      .option('-X, --request <method>', 'another method')
      .option('--url <url>', 'another URL')
      .option('-H, --header <name: value>', 'another field; may be repeated', collect, [])
      .option('-d, --data <text>', 'another body')
      .option('--policy <[route=]file>', 'a policy instead of that of a route; may be repeated', collect, [])
      .option('--capacity <numbers>', 'capacities of limits to try')
      .option('--capacity-of <rule>', 'only limits of this rule')
      .option('--counters <begin>', 'what limits begin with: empty, or running (what is counted now)')
      .option('--archive <file>', 'an HTTP Archive (HAR) instead of what is recorded')
  )
    .option('--limit <count>', 'the newest so many', '10000')
    .option('--json', 'the answer of the API')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
    .addHelpText('after', REPLAY_EXAMPLES)
    .action(async (id: string | undefined, flags: ReplayFlags) => {
      const { replay } = await import('./command-replay.js')
      process.exitCode = await replay(id, flags)
    })
}
