import { Command } from 'commander'
import type { AccessFlags } from '../../cli/api-client.js'
import { API_URL } from '../../cli/flags.js'
import type { VerifyFlags } from './command-verify.js'

const DOMAINS_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice domains verify
  sluice domains verify app.example.com
  sluice domains verify --api https://sluice.example.com:4040 --dns 9.9.9.9

Lists the domains of the management API and looks up their DNS records. Without arguments it checks all reserved domains and
agent ingresses. Exit code 0: all records are correct; 1: a record is wrong or missing, or a server cannot be reached.`

const toTerminal = { out: (line: string) => console.log(line), error: (line: string) => console.error(line) }

/** `sluice domains verify`: explains what the DNS must say, and what it says now. */
export function domainsCommand(): Command {
  const verify = new Command('verify')
    .description('compare the DNS records of domains with the required ones')
    .argument('[domain...]', 'domains to check (default: all)')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--dns <address...>', 'DNS servers to query (default: those of the system)')
    .option('--json', 'print one JSON object for each DNS record')
    .addHelpText('after', DOMAINS_EXAMPLES)
    .action(async (domains: readonly string[], flags: VerifyFlags) => {
      const { verifyDomains } = await import('./command-verify.js')
      process.exitCode = await verifyDomains(domains, flags, process.env, toTerminal)
    })
  return new Command('domains').description('check the DNS records of your domains').addCommand(verify)
}

/** `sluice certificates`: how far managed certificates are. */
export function certificatesCommand(): Command {
  return new Command('certificates')
    .description("list certificates from Let's Encrypt (ACME): issued, requested, waiting or failed")
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .option('--json', 'print one JSON object for each domain')
    .addHelpText('after', '\nNeeds SLUICE_API_KEY. Exit code 0: all are issued; 1: one is not, or the API refused.')
    .action(async (flags: AccessFlags & { readonly json?: boolean }) => {
      const { listCertificates } = await import('./command-verify.js')
      process.exitCode = await listCertificates(flags, process.env, toTerminal)
    })
}
