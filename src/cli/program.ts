import { Command, CommanderError } from 'commander'
import { capabilityCommands } from '../capabilities/registry.js'
import { packageVersion } from '../lib/files.js'
import { apiKeyCommand } from './api-key-commands.js'
import { checkCommand, doctorCommand, schemaCommand, startCommand } from './commands.js'
import { completionCommand } from './completion-command.js'
import { failureText } from './failure.js'
import { keepsRunning } from './flags.js'
import { hashPasswordCommand } from './hash-password-command.js'
import { ExitCode, endWithOutput, goOnWithoutErrors, guardTerminal, nameProcess } from './process.js'
import { upgradeCommand } from './upgrade-command.js'

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
  nameProcess()
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

/** The commit of the build; the build puts it in. */
declare const SLUICE_COMMIT: string | undefined

/** Returns the version with the commit, where the build was made in a clone, and the release of Node. */
function versionLine(): string {
  const commit = typeof SLUICE_COMMIT === 'string' && SLUICE_COMMIT !== '' ? `commit ${SLUICE_COMMIT}, ` : ''
  return `${packageVersion()} (${commit}Node ${process.versions.node})`
}

/** All commands with their flags; nothing of their work is loaded. */
export function createProgram(): Command {
  const program = new Command('sluice')
    .description('Reverse proxy and API gateway with traffic policies in CEL and hot reload.')
    .version(versionLine(), '-V, --version', 'print the version, the commit and Node')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EXAMPLES)
  const commands = [
    startCommand(),
    doctorCommand(),
    checkCommand(),
    ...capabilityCommands('traffic'),
    ...capabilityCommands('configuration'),
    schemaCommand(),
    apiKeyCommand(),
    hashPasswordCommand(),
    ...capabilityCommands('setup'),
    completionCommand(program),
    upgradeCommand()
  ]
  for (const command of commands) program.addCommand(command)
  program.hook('preAction', (_program, command) => {
    if (!keepsRunning(command)) endWithOutput(process.stdout)
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
