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

Each request goes through the steps of the product, in a time of its own: nothing waits, nothing is sent, and counters are
those of this run alone. An upstream that answers with --status stands behind the policy. What a policy would ask of
others, such as by http-request or for the keys of JWTs, is not asked and said so. Values of the request are shown as
they are, secrets of vaults never. Exit code 0: decided, whatever the decision; 1: the policy has errors.`

/** `sluice try`: says how a policy decides a request, with the value of each part of its expressions. */
export function tryCommand(): Command {
  return new Command('try')
    .description('show how a policy decides a request, without sending it')
    .argument('<policy>', 'the policy document')
    .argument('<url>', 'what is asked for')
    .option('-X, --request <method>', 'method of the request', 'GET')
    .option('-H, --header <name: value>', 'field of the request; may be repeated', collect, [])
    .option('-d, --data <text>', 'body of the request')
    .option('--client-ip <address>', 'where it comes from', '127.0.0.1')
    .option('--http-version <version>', '1.0, 1.1 or 2', '1.1')
    .option('--at <time>', 'when it comes (default: now)')
    .option('--repeat <count>', 'how often it comes', '1')
    .option('--every <duration>', 'time from one to the next', '0s')
    .option('--status <code>', 'what the upstream answers', '200')
    .option('--json', 'one JSON object for each request')
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

Folders are searched for *.test.yaml. Each case begins with empty counters and has a time of its own, in which "wait" and
"every" take no time. "recorded: [shop.har]" takes what "sluice log --har" has written: each request must be decided as it
was. Nothing is sent: "upstream" says what the upstream answers, "stubs" what other servers do. --coverage
lists rules, actions and conditions that no case shows; --mutate makes each small mistake in the policy and lists those that
no case notices. Exit code 0: all passed, and with --mutate every mistake was noticed; 1: not so; 2: the command line is wrong.`

/** `sluice test`: runs the tests that stand beside policies. */
export function testCommand(): Command {
  return new Command('test')
    .description('run the tests of policies')
    .argument('[place...]', 'files of tests, and folders with them', ['.'])
    .option('--coverage', 'list what no case shows')
    .option('--mutate', 'make mistakes in the policy and list those that no case notices')
    .option('--only <text>', 'run the cases whose name has this text')
    .option('--tap', 'print TAP instead')
    .option('--junit <file>', 'also write a report in the XML of JUnit')
    .addHelpText('after', TEST_EXAMPLES)
    .action(async (places: string[], flags: TestFlags) => {
      const { testPolicies } = await import('../capabilities/policy-tests/command-run.js')
      process.exitCode = await testPolicies(places, flags)
    })
}
