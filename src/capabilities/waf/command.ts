import { Command } from 'commander'
import { API_URL, collect } from '../../cli/flags.js'
import type { ReportFlags } from './command-run.js'

const REPORT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice waf report
  sluice waf report --site shop.example.com --since 2026-01-31T12:00:00Z
  sluice waf report --trust 10.0.0.0/8 --possible
  sluice waf report --policy shop.example.com=strict.yaml
  sluice waf report --from exchanges.jsonl --json

Decides the recorded requests of a running process again and lists which rules of the web application firewall match, by path and
variable, with counts and how likely the matches are false positives. For likely ones it prints exclusions for the config of the
action, and proves them: how many requests the firewall denies without and with them. Exclusions that would let requests pass that
look like attacks are withheld. Nothing is sent and nothing is changed.
--from reads a file of recorder.file, or of "sluice log --har". --policy tries another policy on the same requests.
Bodies are examined if recorder.bodies keeps them. Exit code 0: done; 1: the API refused; 2: the command line is wrong.`

/** `sluice waf`: reports what the web application firewall finds. */
export function wafCommand(): Command {
  const report = new Command('report')
    .description('list matched rules and false positives of the firewall, with proposed exclusions')
    .option('--from <file>', 'file with exchanges to use instead of recorded requests')
    .option('--trust <network>', 'clients whose requests are harmless, such as testers; may be repeated', collect, [])
    .option('--possible', 'propose exclusions for possible false positives, too')
    .option(
      '--policy <[route=]file>',
      'policy to test, for one route or site by its name; may be repeated',
      collect,
      []
    )
    .option('--no-proof', 'do not decide the requests with the exclusions')
    .option('--where <expression>', 'CEL condition on finished requests')
    .option('--host <name>', 'host, or *.example.com')
    .option('--client <address>', 'client address or network')
    .option('--site <name>', 'name of the site, such as shop.example.com')
    .option('--route <name>', 'name of the route, such as shop.example.com/api, or its id')
    .option('--since <time>', 'requests that began at this time or later')
    .option('--until <time>', 'requests that began before this time')
    .option('--limit <count>', 'maximum number, newest first', '10000')
    .option('--json', 'print the response of the API as JSON')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .addHelpText('after', REPORT_EXAMPLES)
    .action(async (flags: ReportFlags) => {
      const { reportFirewall } = await import('./command-run.js')
      process.exitCode = await reportFirewall(flags)
    })
  return new Command('waf').description('tune the web application firewall with recorded requests').addCommand(report)
}
