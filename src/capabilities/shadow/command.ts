import { Command } from 'commander'
import type { ShadowFlags } from './command-run.js'

const SHADOW_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice shadow policy.yaml --for 10m
  sluice shadow policy.yaml --route edghtsrt_2ab --share 10% --for 1h
  sluice shadow policy.yaml --json | jq '.matrix[] | select(.differs != [])'

Runs the policy beside the one that serves, on what clients send to a running process: nothing that it decides has effects, and
no client waits for it. Counts are shown while it runs, at the end what it decides otherwise, with examples. --share takes
that part of the clients, and of these all requests, so that limits of a client see what they would see. What another server
would have to say (logins, keys, http-request) and bodies are not judged. Ctrl-C ends it early. Exit code 0: decided alike;
1: decided otherwise; 2: nothing was judged, the policy was refused, or the process cannot be asked.`

/** `sluice shadow`: runs a policy beside the one that serves, without effects. */
export function shadowCommand(): Command {
  return new Command('shadow')
    .description('run a policy beside the one that serves, without effects')
    .argument('<policy>', 'the policy document that is tried')
    .option('--route <id>', 'the route whose policy it is tried for; default: that of the options', 'default')
    .option('--share <share>', 'share of the clients, such as 10%', '100%')
    .option('--for <duration>', 'how long it runs', '10m')
    .option('--budget <duration>', 'work for one request; beyond, it is not judged', '2ms')
    .option('--counters <from>', 'running: limits go on from what is counted now; empty: they begin anew', 'running')
    .option('--api <url>', 'the management API of the process', 'http://127.0.0.1:4040')
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
    .option('--json', 'at the end, the answer of the API')
    .addHelpText('after', SHADOW_EXAMPLES)
    .action(async (policy: string, flags: ShadowFlags) => {
      const { shadowPolicy } = await import('./command-run.js')
      process.exitCode = await shadowPolicy(policy, flags)
    })
}
