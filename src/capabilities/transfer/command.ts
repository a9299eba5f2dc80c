import { Command } from 'commander'
import type { StoreFlags } from '../../cli/store-place.js'
import type { ExportFlags } from './command-run.js'

/** Description of the address of a store that is a file. */
const SQLITE = 'a SQLite file'

/** Adds the flags that name a store to a command. `kinds`: addresses that it takes. */
function withStore(command: Command, kinds = `${SQLITE} or postgres://…`): Command {
  return command
    .option('--data <folder>', 'data folder with the store and its key (default: ./data, or as in the options)')
    .option('--store <address>', `store: ${kinds} (default: <data>/sluice.db)`)
    .option('--config <file>', 'options file that names data folder and store')
}

const EXPORT_EXAMPLES = `
Examples:
  sluice export --output account.yaml
  sluice export --data /var/lib/sluice --with-secrets --output account.yaml
  sluice export --store postgres://sluice@db/sluice > account.yaml
  sluice export --at 42 --output before.yaml

The document has every record at one revision, always in the same order. Secrets, private keys and hashes of keys are left out.
--with-secrets includes them, encrypted with a passphrase from SLUICE_PASSPHRASE or the terminal. A process may run meanwhile: the
document has what it has committed. --at exports an older revision that the history still has; the history has no secrets, so a secret that
was changed since is left out.`

/** `sluice export`: writes the whole account as one document. */
export function exportCommand(): Command {
  return withStore(new Command('export').description('export all records of the API as one YAML document'))
    .option('--at <revision>', 'revision to export (default: the latest)')
    .option('--with-secrets', 'include secrets and private keys, encrypted with a passphrase')
    .option('--output <file>', 'output file, mode 0600 (default: standard output)')
    .addHelpText('after', EXPORT_EXAMPLES)
    .action(async (flags: ExportFlags) => {
      const { exportTo } = await import('./command-run.js')
      process.exitCode = await exportTo(flags)
    })
}

const IMPORT_EXAMPLES = `
Examples:
  sluice import account.yaml --dry-run
  sluice import account.yaml
  sluice import account.yaml --prune --yes --data /var/lib/sluice
  sluice import nginx /etc/nginx/nginx.conf -o site.yaml
  sluice import caddy|haproxy|traefik|ngrok FILE -o site.yaml
  SLUICE_PASSPHRASE=… sluice import account.yaml --yes --store postgres://sluice@db/sluice

Shows the changes and asks for confirmation; without a terminal, give --yes. Either everything is imported or nothing.
A document that was truncated or edited after its export needs --partial.
Records that are not in the document stay, unless --prune deletes them. Secrets that are not in the document stay as they are.
Processes on PostgreSQL serve the import within a second. Stop the process first if the store is a SQLite file.`

interface ImportFlags extends StoreFlags {
  readonly dryRun?: boolean
  readonly yes?: boolean
  readonly prune?: boolean
  readonly partial?: boolean
}

/** `sluice import`: makes the account what a document says. */
export function importCommand(): Command {
  return withStore(
    new Command('import')
      .description(
        'import a document of "sluice export" into a store, or convert configuration files of another server'
      )
      .argument('<file>', 'exported document; "-" reads standard input')
  )
    .option('--dry-run', 'show the changes without making them')
    .option('--yes', 'do not ask for confirmation')
    .option('--prune', 'delete records that are not in the document')
    .option('--partial', 'accept a document that was truncated or edited after its export')
    .addHelpText('after', IMPORT_EXAMPLES)
    .action(async (file: string, { dryRun, yes, prune, partial, ...flags }: ImportFlags) => {
      const { importFile } = await import('./command-run.js')
      const how = { dryRun: dryRun === true, yes: yes === true, prune: prune === true, partial: partial === true }
      process.exitCode = await importFile(file, flags, how)
    })
}

const SEAL_EXAMPLES = `
Examples:
  sluice seal rotate
  sluice seal rotate --data /var/lib/sluice
  SLUICE_SEAL_KEY=<old> SLUICE_SEAL_KEY_NEW=<new> sluice seal rotate --store postgres://sluice@db/sluice

Creates a new sealing key, encrypts every secret of the store with it, and then removes the old key. If you supply the key in
SLUICE_SEAL_KEY, put the new one into SLUICE_SEAL_KEY_NEW. Stop every process on the store first. If the command is interrupted,
run it again.`

/** `sluice seal rotate`: changes the key that secrets are sealed by. */
export function sealCommand(): Command {
  const rotate = withStore(new Command('rotate').description('replace the sealing key and encrypt every secret again'))
    .addHelpText('after', SEAL_EXAMPLES)
    .action(async (flags: StoreFlags) => {
      const { rotateSeal } = await import('./command-rotate-seal.js')
      process.exitCode = await rotateSeal(flags)
    })
  return new Command('seal').description('manage the key that encrypts secrets in the store').addCommand(rotate)
}

const BACKUP_EXAMPLES = `
Examples:
  sluice backup /backups/sluice.db
  sluice backup --data /var/lib/sluice --with-keys --overwrite /backups/sluice.db

The backup is a SQLite file with a consistent copy of the store. Sluice keeps running meanwhile. The file appears only when it is
complete, with mode 0600; "sluice restore" checks it and puts it in place. Secrets in it stay encrypted: keep the sealing key
elsewhere, or include it with --with-keys and protect the file like a key. For PostgreSQL use pg_dump.`

interface BackupFlags extends StoreFlags {
  readonly withKeys?: boolean
  readonly overwrite?: boolean
}

/** `sluice backup`: a consistent copy of the store, beside a process that runs. */
export function backupCommand(): Command {
  return withStore(
    new Command('backup').description('back up the store (SQLite) while Sluice runs').argument('<file>', 'output file'),
    SQLITE
  )
    .option('--with-keys', 'include the sealing key, the hashes of API keys and the CA of agents')
    .option('--overwrite', 'replace an existing file')
    .addHelpText('after', BACKUP_EXAMPLES)
    .action(async (file: string, { withKeys, overwrite, ...flags }: BackupFlags) => {
      const { backUp } = await import('./command-backup.js')
      process.exitCode = await backUp(file, flags, { withKeys: withKeys === true, overwrite: overwrite === true })
    })
}

const RESTORE_EXAMPLES = `
Examples:
  sluice restore /backups/sluice.db
  sluice restore --data /var/lib/sluice --overwrite /backups/sluice.db

Stop the process on the data folder first. The backup is checked before anything changes, and an existing store is replaced only
with --overwrite. A backup made --with-keys restores the keys too; otherwise put seal.key into the folder yourself, or set
SLUICE_SEAL_KEY.`

interface RestoreFlags extends StoreFlags {
  readonly overwrite?: boolean
}

/** `sluice restore`: puts a backup in the place of the store. */
export function restoreCommand(): Command {
  return withStore(
    new Command('restore')
      .description('restore a backup of the store')
      .argument('<file>', 'backup from "sluice backup" or GET /backup'),
    SQLITE
  )
    .option('--overwrite', 'replace an existing store, and existing keys if the backup has keys')
    .addHelpText('after', RESTORE_EXAMPLES)
    .action(async (file: string, { overwrite, ...flags }: RestoreFlags) => {
      const { restore } = await import('./command-backup.js')
      process.exitCode = await restore(file, flags, overwrite === true)
    })
}
