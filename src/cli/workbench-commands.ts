import { Command } from 'commander'
import type { TryFlags } from '../capabilities/explain/command-run.js'
import type { TestFlags } from '../capabilities/policy-tests/command-run.js'
import { collect } from './commands.js'

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
    .option('--json', 'print one JSON object for each request')
    .addHelpText('after', TRY_EXAMPLES)
    .action(async (policy: string, url: string, flags: TryFlags) => {
      const { tryPolicy } = await import('../capabilities/explain/command-run.js')
      process.exitCode = await tryPolicy(policy, url, flags)
    })
}

const TEST_EXAMPLES = `
Examples:
  sluice test
  sluice test policies --coverage
  sluice test shop.test.yaml --mutate
  sluice test --junit report.xml
  sluice test --tap | tap-parser

shop.test.yaml, beside shop.yaml:
  defaults: { host: shop.example.com, client_ip: 203.0.113.9 }
  cases:
    - name: a client has 60 requests a minute
      steps:
        - { request: { path: /cart }, repeat: 60, expect: { status: 200 } }
        - { request: { path: /cart }, expect: { status: 429, rule: limit } }
        - { wait: 60s }
        - { request: { path: /cart }, expect: { outcome: forwarded } }
    - name: \${path} is for admins
      matrix: { path: [/admin, /admin/users] }
      request: { path: "\${path}" }
      expect: { status: 403, code: POLICY_DENIED }

Folders are searched for *.test.yaml. Each case starts with empty counters and a simulated clock, so "wait" and "every" take no
time. "recorded: [shop.har]" replays a file from "sluice log --har": each request must get the same decision as recorded.
Nothing is sent: "upstream" sets the response of the upstream, "stubs" those of other servers. --coverage lists rules, actions and
conditions that no case covers. --mutate changes the policy in small ways (mutation testing) and lists changes that no case
detects. Exit code 0: all cases passed and all mutations were detected; 1: failures; 2: the command line is wrong.`

/** `sluice test`: runs the tests that stand beside policies. */
export function testCommand(): Command {
  return new Command('test')
    .description('run policy tests (*.test.yaml)')
    .argument('[place...]', 'test files, or folders that contain them', ['.'])
    .option('--coverage', 'list rules, actions and conditions that no case covers')
    .option('--mutate', 'mutation testing: list changes of the policy that no case detects')
    .option('--only <text>', 'run only cases whose name contains this text')
    .option('--tap', 'print TAP')
    .option('--junit <file>', 'write a JUnit XML report')
    .addHelpText('after', TEST_EXAMPLES)
    .action(async (places: string[], flags: TestFlags) => {
      const { testPolicies } = await import('../capabilities/policy-tests/command-run.js')
      process.exitCode = await testPolicies(places, flags)
    })
}
