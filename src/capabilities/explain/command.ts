import { Command } from 'commander'
import { collect } from '../../cli/flags.js'
import type { TryFlags } from './command-run.js'

const TRY_EXAMPLES = `
Examples:
  sluice try policy.yaml http://shop.example.com/cart
  sluice try policy.yaml -X POST -H 'content-type: application/json' --data '{"a":1}' https://shop.example.com/cart
  sluice try policy.yaml --client-ip 203.0.113.9 --repeat 70 --every 500ms http://shop.example.com/
  sluice try policy.yaml --at 2026-12-24T18:00:00Z --json http://shop.example.com/ | jq .decision

Runs the real request pipeline on a simulated clock: nothing is sent, --every does not wait, and rate-limit counters start empty.
A simulated upstream answers with --status. Requests that the policy would make itself (http-request, keys for JWTs) are skipped
and listed. Values of the request are shown in clear text, secrets of vaults never.
Exit code 0: a decision was made, whatever it is; 1: the policy has errors.`

/** `sluice try`: says how a policy decides a request, with the value of each part of its expressions. */
export function tryCommand(): Command {
  return new Command('try')
    .description('show step by step how a policy handles a request')
    .argument('<policy>', 'policy file')
    .argument('<url>', 'URL of the request')
    .option('-X, --request <method>', 'request method', 'GET')
    .option('-H, --header <name: value>', 'request header; may be repeated', collect, [])
    .option('-d, --data <text>', 'request body')
    .option('--client-ip <address>', 'client address', '127.0.0.1')
    .option('--http-version <version>', '1.0, 1.1 or 2', '1.1')
    .option('--at <time>', 'time of the request (default: now)')
    .option('--repeat <count>', 'number of requests', '1')
    .option('--every <duration>', 'simulated time between requests', '0s')
    .option('--status <code>', 'status that the simulated upstream returns', '200')
    .option('--waf-rules <folder>', 'rules for the actions owasp-crs-request and owasp-crs-response')
    .option('--json', 'print one JSON object for each request')
    .addHelpText('after', TRY_EXAMPLES)
    .action(async (policy: string, url: string, flags: TryFlags) => {
      const { tryPolicy } = await import('./command-run.js')
      process.exitCode = await tryPolicy(policy, url, flags)
    })
}
