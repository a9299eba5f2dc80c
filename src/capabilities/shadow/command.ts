import { Command } from 'commander'
import { API_URL } from '../../cli/flags.js'
import type { ShadowFlags } from './command-run.js'

const SHADOW_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice shadow policy.yaml --for 10m
  sluice shadow policy.yaml --route shop.example.com/api --share 10% --for 1h
  sluice shadow policy.yaml --json | jq '.matrix[] | select(.differs != [])'

Evaluates the policy on live traffic beside the active one, without enforcing it and without delaying clients (dry run). Counts are
shown while it runs; at the end, every different decision is listed with examples. --share selects clients, with all their
requests, so that per-client rate limits see realistic traffic. Requests that need another server (logins, keys, http-request) or
a body are not judged. Ctrl-C stops it early. Exit code 0: same decisions; 1: different decisions; 2: nothing was judged, the
policy was refused, or the process cannot be reached.`

/** `sluice shadow`: runs a policy beside the one that serves, without effects. */
export function shadowCommand(): Command {
  return new Command('shadow')
    .description('test a policy on live traffic without enforcing it')
    .argument('<policy>', 'policy file to test')
    .option(
      '--route <name>',
      'route whose policy it would replace, such as shop.example.com/api, or a site; "default" is the policy of the options',
      'default'
    )
    .option('--share <share>', 'share of clients, for example 10%', '100%')
    .option('--for <duration>', 'duration of the test', '10m')
    .option('--budget <duration>', 'CPU time for one request; beyond, it is not judged', '2ms')
    .option(
      '--counters <from>',
      'initial counters of rate limits: running (a copy of the current ones) or empty',
      'running'
    )
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .option('--json', 'print the final response of the API as JSON')
    .addHelpText('after', SHADOW_EXAMPLES)
    .action(async (policy: string, flags: ShadowFlags) => {
      const { shadowPolicy } = await import('./command-run.js')
      process.exitCode = await shadowPolicy(policy, flags)
    })
}
