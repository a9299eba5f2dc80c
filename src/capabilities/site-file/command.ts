import { Command } from 'commander'
import { API_URL } from '../../cli/flags.js'
import { withGuard } from '../guard/command.js'
import type { AdoptFlags } from './command-adopt.js'
import type { DiffFlags } from './command-diff.js'
import type { ApplyFlags } from './command-run.js'

const PLAN_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice plan sites.yaml
  sluice plan sites.yaml --api https://sluice.example.com:4040
  sluice plan sites.yaml --json | jq '.changes[] | select(.change == "removed")'

Sends the site file, with the policies, certificates and secrets that it names, to a running process and prints what would be
added (+), changed (~) and removed (-). Nothing changes. Values of secrets are never shown. { env: … } is resolved in the
environment of that process, and every policy is compiled there: a file that passes can be applied.
Exit code 0: no differences; 2: differences; 1: the file has errors, or the process cannot be reached.`

/** `sluice plan`: shows the changes that a site file would make in a running process. */
export function planCommand(): Command {
  return new Command('plan')
    .description('show what a site file would change in a running process')
    .argument('<site-file>', 'site file to compare with the running configuration')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--adopt <file>', 'records.json of "sluice adopt": records that "apply" would remove')
    .option('--insecure-http', 'allow http:// to another machine (sends keys and secrets in clear text)')
    .option('--json', 'print one JSON object: {"file", "different", "changes", "removed", "warnings"}')
    .addHelpText('after', PLAN_EXAMPLES)
    .action(async (file: string, flags: ApplyFlags) => {
      const { planSite } = await import('./command-run.js')
      process.exitCode = await planSite(file, flags)
    })
}

const APPLY_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice apply sites.yaml
  sluice apply sites.yaml --yes --api https://sluice.example.com:4040
  sluice apply adopted/sites.yaml --adopt adopted/records.json
  sluice apply sites.yaml --yes --guard 'bake=1m, error-rate=+2%, refusal-rate=+5%' --wait

Shows the changes and asks for confirmation; without a terminal, give --yes. The whole file is applied in one step, or nothing.
The process stores the file and serves it after a restart, too. The API shows what the file declares and refuses to change it.
Files that the site file names are sent along; { env: … } is resolved in the environment of the process. A process that was
started with a site file refuses another one. With --guard the process restores the previous file if a condition breaks; --wait
waits for the result. Exit code 0: applied, or nothing to change; 1: refused, or the guard broke; 2: the command line is wrong.`

/** `sluice apply`: makes a running process serve a site file. */
export function applyCommand(): Command {
  return withGuard(
    new Command('apply')
      .description('apply a site file to a running process')
      .argument('<site-file>', 'site file to apply')
      .option('--api <url>', 'URL of the management API', API_URL)
      .option('--yes', 'do not ask for confirmation')
      .option('--adopt <file>', 'remove the records in this records.json of "sluice adopt" in the same step')
  )
    .option('--insecure-http', 'allow http:// to another machine (sends keys and secrets in clear text)')
    .option('--json', 'print one JSON object: {"file", "different", "changes", "removed", "warnings"}')
    .addHelpText('after', APPLY_EXAMPLES)
    .action(async (file: string, flags: ApplyFlags) => {
      const { applySite } = await import('./command-run.js')
      process.exitCode = await applySite(file, flags)
    })
}

const ADOPT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice adopt sites
  sluice adopt sites --with-keys --data /var/lib/sluice
  sluice check sites/sites.yaml
  sluice apply sites/sites.yaml --adopt sites/records.json

Writes the sites, backends, certificates, IP policies and vaults of the management API into a new folder: a site file, and one
file for each policy and certificate. Secrets and private keys become references to files. The API never returns their values, so
--with-keys decrypts them here with the sealing key of the store and writes them with mode 0600; without it, the missing files are
listed. Records that a site file cannot express are listed, too, and stay in the API.
The running process does not change. "sluice apply --adopt" replaces the records with the file in one step.`

/** `sluice adopt`: exports the API's configuration as a site file. */
export function adoptCommand(): Command {
  return new Command('adopt')
    .description('export the configuration of the API as a site file')
    .argument('<folder>', 'new folder for the site file, its policies and certificates')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--with-keys', 'also write secrets and private keys, decrypted with the sealing key')
    .option('--data <folder>', 'data folder with the sealing key (default: ./data, or as in the options)')
    .option('--store <address>', 'store, if it is postgres://…')
    .option('--config <file>', 'options file that names data folder and store')
    .addHelpText('after', ADOPT_EXAMPLES)
    .action(async (folder: string, flags: AdoptFlags) => {
      const { adopt } = await import('./command-adopt.js')
      process.exitCode = await adopt(folder, flags)
    })
}

const DIFF_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice diff 42
  sluice diff 42 --from 30
  sluice diff 30 --from 42 --json

Shows the records that revision 42 created (+), updated (~) and deleted (-), each value as before → after, and policies as a
unified diff. --from compares two revisions, in either order; 0 is the empty configuration. Values of secrets are never shown, and
members see only fields that they may read. Exit code 0: done; 1: refused, for example because the history no longer has the
revision; 2: the command line is wrong.`

/** `sluice diff`: shows the changes of a revision of a running process, or the differences of two. */
export function diffCommand(): Command {
  return new Command('diff')
    .description('show what a configuration change (revision) changed')
    .argument('<revision>', 'number of the revision')
    .option('--from <revision>', 'compare with this revision (default: the previous one)')
    .option('--api <url>', 'URL of the management API', API_URL)
    .option('--insecure-http', 'allow http:// to another machine (sends the API key in clear text)')
    .option('--json', 'print the response of the API as JSON')
    .addHelpText('after', DIFF_EXAMPLES)
    .action(async (revision: string, flags: DiffFlags) => {
      const { diff } = await import('./command-diff.js')
      process.exitCode = await diff(revision, flags)
    })
}
