import { Command } from 'commander'
import type { TestFlags } from './command-run.js'

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
    .option('--waf-rules <folder>', 'rules for the actions owasp-crs-request and owasp-crs-response')
    .option('--tap', 'print TAP')
    .option('--junit <file>', 'write a JUnit XML report')
    .addHelpText('after', TEST_EXAMPLES)
    .action(async (places: string[], flags: TestFlags) => {
      const { testPolicies } = await import('./command-run.js')
      process.exitCode = await testPolicies(places, flags)
    })
}
