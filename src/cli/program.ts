import { Command, CommanderError } from 'commander'
import { logCommand, replayCommand } from '../capabilities/recorder/command.js'
import { capabilityCommands } from '../capabilities/registry.js'
import { shadowCommand } from '../capabilities/shadow/command.js'
import {
  adoptCommand,
  applyCommand,
  diffCommand,
  planCommand,
  revertCommand
} from '../capabilities/site-file/command.js'
import { packageVersion } from '../lib/files.js'
import { apiKeyCommand } from './api-key-commands.js'
import {
  agentCommand,
  certificatesCommand,
  checkCommand,
  doctorCommand,
  domainsCommand,
  exportCommand,
  importCommand,
  schemaCommand,
  sealCommand,
  startCommand
} from './commands.js'
import { failureText } from './failure.js'
import { hashPasswordCommand } from './hash-password-command.js'
import { importFormatCommand } from './import-commands.js'
import { ExitCode, endWithOutput, goOnWithoutErrors, guardTerminal } from './process.js'
import { testCommand, tryCommand } from './workbench-commands.js'

const BACKUP_EXAMPLES = `
Examples:
  sluice backup /backups/sluice.db
  sluice backup --data /var/lib/sluice --with-keys --overwrite /backups/sluice.db

The backup is a SQLite file with a consistent copy of the store. Sluice keeps running meanwhile. The file appears only when it is
complete, with mode 0600; "sluice restore" checks it and puts it in place. Secrets in it stay encrypted: keep the sealing key
elsewhere, or include it with --with-keys and protect the file like a key. For PostgreSQL use pg_dump.`

interface BackupFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
  readonly withKeys?: boolean
  readonly overwrite?: boolean
}

/** `sluice backup`: a consistent copy of the store, beside a process that runs. */
function backupCommand(): Command {
  return new Command('backup')
    .description('back up the store (SQLite) while Sluice runs')
    .argument('<file>', 'output file')
    .option('--data <folder>', 'data folder with the store and its key (default: ./data, or as in the options)')
    .option('--store <address>', 'store: a SQLite file (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names data folder and store')
    .option('--with-keys', 'include the sealing key, the hashes of API keys and the CA of agents')
    .option('--overwrite', 'replace an existing file')
    .addHelpText('after', BACKUP_EXAMPLES)
    .action(async (file: string, { withKeys, overwrite, ...flags }: BackupFlags) => {
      const { backUp } = await import('../capabilities/transfer/command-backup.js')
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

interface RestoreFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
  readonly overwrite?: boolean
}

/** `sluice restore`: puts a backup in the place of the store. */
function restoreCommand(): Command {
  return new Command('restore')
    .description('restore a backup of the store')
    .argument('<file>', 'backup from "sluice backup" or GET /backup')
    .option('--data <folder>', 'data folder with the store and its key (default: ./data, or as in the options)')
    .option('--store <address>', 'store: a SQLite file (default: <data>/sluice.db)')
    .option('--config <file>', 'options file that names data folder and store')
    .option('--overwrite', 'replace an existing store, and existing keys if the backup has keys')
    .addHelpText('after', RESTORE_EXAMPLES)
    .action(async (file: string, { overwrite, ...flags }: RestoreFlags) => {
      const { restore } = await import('../capabilities/transfer/command-backup.js')
      process.exitCode = await restore(file, flags, overwrite === true)
    })
}

const EXAMPLES = `
Examples:
  sluice start --upstream http://127.0.0.1:3000
  sluice start --upstream http://127.0.0.1:3000 --policy policy.yaml
  sluice start sites.yaml
  sluice check sites.yaml policy.yaml
  sluice api-key create

Run "sluice COMMAND --help" for the flags of a command. config/sluice.yaml lists every option of "start".`

/**
 * Runs one command of `sluice` and resolves with the exit code. Commands set `process.exitCode` for what they found;
 * a command line that cannot be read is 2.
 */
export async function runProgram(words: readonly string[]): Promise<number> {
  const program = createProgram()
  for (const output of [process.stdout, process.stderr]) guardTerminal(output)
  goOnWithoutErrors(process.stderr)
  try {
    await program.parseAsync([...words], { from: 'user' })
    return Number(process.exitCode ?? ExitCode.ok)
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage
    console.error(`error: ${failureText(error)}`)
    return ExitCode.failure
  }
}

/** `sluice import`: an account's export, or the configuration of another server by the word behind it. */
function importCommands(): Command {
  return importCommand().addCommand(importFormatCommand('nginx', 'nginx'))
}

/** They go on when nothing reads what they print. */
const LASTING = ['start', 'agent']

/** All commands with their flags; nothing of their work is loaded. */
export function createProgram(): Command {
  const program = new Command('sluice')
    .description('Reverse proxy and API gateway with traffic policies in CEL and hot reload.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EXAMPLES)
  const commands = [
    startCommand(),
    doctorCommand(),
    checkCommand(),
    tryCommand(),
    testCommand(),
    logCommand(),
    replayCommand(),
    shadowCommand(),
    ...capabilityCommands(),
    planCommand(),
    applyCommand(),
    adoptCommand(),
    diffCommand(),
    revertCommand(),
    schemaCommand(),
    apiKeyCommand(),
    hashPasswordCommand(),
    domainsCommand(),
    certificatesCommand()
  ]
  commands.push(agentCommand(), exportCommand(), importCommands(), backupCommand(), restoreCommand(), sealCommand())
  for (const command of commands) program.addCommand(command)
  program.hook('preAction', (_program, command) => {
    if (!LASTING.includes(command.name())) endWithOutput(process.stdout)
  })
  return inherit(program)
}

/** For help and the version, which are written before a command begins. */
function writeHelp(text: string): void {
  endWithOutput(process.stdout)
  process.stdout.write(text)
}

/** Commands made apart inherit nothing: errors of all of them come back here as exceptions and name the help to read. */
function inherit(command: Command, words = 'sluice'): Command {
  command.configureOutput({ writeOut: writeHelp })
  command.exitOverride().showHelpAfterError(`(${words} --help lists the flags)`)
  for (const child of command.commands) inherit(child, `${words} ${child.name()}`)
  return command
}
