import { Command } from 'commander'
import type { VerifyFlags } from './domains-verify.js'
import { load } from './load.js'

const DOMAINS_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice domains verify
  sluice domains verify app.example.com
  sluice domains verify --api https://sluice.example.com:4040 --dns 9.9.9.9

Asks the management API which domains there are, and the DNS what it says of them. Without names all reserved domains
and agent ingresses are looked at. Exit code 0: the DNS says what it must; 1: something is wrong or cannot be asked.`

/** `sluice domains verify`: explains what the DNS must say, and what it says now. */
export function domainsCommand(): Command {
  const verify = new Command('verify')
    .description('compare what the DNS must say of domains with what it says now')
    .argument('[domain...]', 'domains of the account (default: all of them)')
    .option('--api <url>', 'the management API', 'http://127.0.0.1:4040')
    .option('--dns <address...>', 'resolvers to ask (default: those of the system)')
    .option('--json', 'one JSON object for each line of the DNS')
    .addHelpText('after', DOMAINS_EXAMPLES)
    .action(async (domains: readonly string[], flags: VerifyFlags) => {
      const { verifyDomains } = await load('./domains-verify.js', () => import('./domains-verify.js'))
      const print = { out: (line: string) => console.log(line), error: (line: string) => console.error(line) }
      process.exitCode = await verifyDomains(domains, flags, process.env, print)
    })
  return new Command('domains').description('domains of the account').addCommand(verify)
}
