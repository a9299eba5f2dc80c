import { CodedError, defineErrors } from '../lib/errors.js'
import type { UnitProblems } from '../policy/problems.js'

/** Codes with which the server or an agent does not start. */
export const startErrors = defineErrors({
  POLICY_REFUSED: { text: 'A policy has errors.', help: 'Correct the policy; sluice check shows the same problems.' },
  DATA_UNWRITABLE: {
    text: 'The data folder cannot be written, and nothing was stored in it before.',
    help: 'Give the folder to the user of the process, or name another one with --data.'
  },
  SOCKETS_UNKNOWN: {
    text: 'The service manager hands over a socket that no option stands for.',
    help: 'Name it listen, api.listen, agents, or host:port of one of the listeners (FileDescriptorName=).'
  },
  ACCESS_LOG: {
    text: 'The options of the access log cannot be followed.',
    help: 'Correct the option that the message names.'
  },
  TRACES: {
    text: 'The options of traces cannot be followed.',
    help: 'Correct the option that the message names.'
  },
  WORKERS: {
    text: 'An option does not go with threads that carry traffic.',
    help: 'Leave the option out that the message names, or set workers to 0.'
  },
  AGENT_SETUP: {
    text: 'The settings of the agent are wrong or contradict each other.',
    help: 'Correct the flag, the variable or the line of the file that the message names.'
  }
})

/** The configuration at the start is refused: the problems say where and why. */
export class ConfigurationRefused extends CodedError {
  readonly problems: readonly UnitProblems[]

  constructor(problems: readonly UnitProblems[]) {
    super(startErrors.POLICY_REFUSED, 'the traffic policy has errors')
    this.problems = problems
  }
}

/** Codes of commands. */
export const commandErrors = defineErrors({
  FILE_EXISTS: {
    text: 'The file that a command would write is there already.',
    help: 'Choose another name, or allow it with --overwrite.'
  },
  STORE_IN_USE: { text: 'Other processes use the store.', help: 'Stop them first.' },
  API_UNUSABLE: {
    text: 'The API that a command asks does not answer as one of Sluice does.',
    help: 'Correct the address and the key.'
  },
  API_EXPOSED: {
    text: 'Secrets would cross a network in clear text.',
    help: 'Use an https URL or an address of this machine, or allow it with --insecure-http.'
  },
  PASSPHRASE_MISSING: {
    text: 'A passphrase is needed and there is no terminal to ask for it.',
    help: 'Set SLUICE_PASSPHRASE.'
  },
  INTERRUPTED: { text: 'The command was interrupted at a question.', help: 'Run it again.' }
})
