import type { Command } from 'commander'
import type { Capability, CapabilityErrors } from '../app/capability.js'
import type { DocumentKind } from '../cli/documents.js'
import type { ProcessHooks } from '../cli/process-hooks.js'
import { certificatesCommand, domainsCommand } from './certificates/command.js'
import { tryCommand } from './explain/command.js'
import { revertCommand } from './guard/command.js'
import { importFormatCommands } from './import/command.js'
import { limitsCommand } from './limits/command.js'
import { testCommand } from './policy-tests/command.js'
import { logCommand, replayCommand } from './recorder/command.js'
import { shadowCommand } from './shadow/command.js'
import { adoptCommand, applyCommand, diffCommand, planCommand } from './site-file/command.js'
import { statusCommand } from './status/command.js'
import { backupCommand, exportCommand, importCommand, restoreCommand, sealCommand } from './transfer/command.js'
import { agentCommand } from './tunnel/command.js'
import { wafCommand } from './waf/command.js'

/** Parts of `sluice --help` in which capabilities have commands. */
type HelpPart = 'traffic' | 'configuration' | 'setup'

/** The entries of a capability; each is loaded only where it runs. */
interface Entry {
  /** Loads the part of the server. */
  readonly server?: () => Promise<Capability>
  /** Loads the error tables of a capability that has no part of the server. */
  readonly errors?: () => Promise<CapabilityErrors>
  /** Return commands with their flags, by the part of `sluice --help`. A command imports its work when it runs. */
  readonly commands?: Readonly<Partial<Record<HelpPart, () => readonly Command[]>>>
  /** Subcommands of commands of other capabilities, by the name of the command. */
  readonly subcommands?: Readonly<Record<string, () => readonly Command[]>>
  /** Loads its part in the command `sluice start`. */
  readonly process?: () => Promise<ProcessHooks>
  /** Loads kinds of documents for `sluice check` and `sluice schema`, by their name. */
  readonly documents?: Readonly<Record<string, () => Promise<DocumentKind>>>
}

/** All capabilities, in the order in which they open and in which the description of the API and each part of `sluice --help` list them. */
const REGISTRY: Readonly<Record<string, Entry>> = {
  traces: { server: async () => (await import('./traces/capability.js')).traces },
  'cluster-limits': { server: async () => (await import('./cluster-limits/capability.js')).clusterLimits },
  certificates: {
    server: async () => (await import('./certificates/capability.js')).certificates,
    commands: { setup: () => [domainsCommand(), certificatesCommand()] }
  },
  events: { server: async () => (await import('./events/capability.js')).events },
  explain: {
    server: async () => (await import('./explain/capability.js')).explain,
    commands: { traffic: () => [tryCommand()] }
  },
  'policy-tests': {
    server: async () => (await import('./policy-tests/capability.js')).policyTests,
    commands: { traffic: () => [testCommand()] }
  },
  recorder: {
    server: async () => (await import('./recorder/capability.js')).recorder,
    commands: { traffic: () => [logCommand(), replayCommand()] }
  },
  shadow: {
    server: async () => (await import('./shadow/capability.js')).shadow,
    commands: { traffic: () => [shadowCommand()] }
  },
  'site-file': {
    server: async () => (await import('./site-file/capability.js')).siteFile,
    commands: { configuration: () => [planCommand(), applyCommand(), adoptCommand(), diffCommand()] },
    documents: { site: async () => (await import('./site-file/document.js')).siteDocument }
  },
  guard: {
    server: async () => (await import('./guard/capability.js')).guard,
    commands: { configuration: () => [revertCommand()] }
  },
  tunnel: {
    server: async () => (await import('./tunnel/capability.js')).tunnel,
    commands: { setup: () => [agentCommand()] }
  },
  transfer: {
    server: async () => (await import('./transfer/capability.js')).transfer,
    commands: { setup: () => [exportCommand(), importCommand(), backupCommand(), restoreCommand(), sealCommand()] }
  },
  waf: {
    server: async () => (await import('./waf/capability.js')).waf,
    commands: { traffic: () => [wafCommand()] }
  },
  limits: {
    server: async () => (await import('./limits/capability.js')).limits,
    commands: { traffic: () => [limitsCommand()] }
  },
  status: {
    server: async () => (await import('./status/capability.js')).status,
    commands: { traffic: () => [statusCommand()] }
  },
  workers: {
    server: async () => (await import('./workers/capability.js')).workers,
    process: async () => (await import('./workers/process.js')).workerHooks
  },
  'take-over': {
    server: async () => (await import('./take-over/capability.js')).takeOver,
    process: async () => (await import('./take-over/process.js')).takeOverHooks
  },
  import: {
    errors: async () => ({ Commands: [(await import('./import/errors.js')).importErrors] }),
    subcommands: { import: () => importFormatCommands(serverCapabilities) }
  }
}

/** Loads the capabilities that run in a server. */
export async function serverCapabilities(): Promise<readonly Capability[]> {
  const loaded = Object.values(REGISTRY).map(async ({ server }) => await server?.())
  return (await Promise.all(loaded)).filter((one) => one !== undefined)
}

/** Loads what capabilities do in the command `sluice start`. */
export async function processHooks(): Promise<ProcessHooks> {
  const loaded = Object.values(REGISTRY).map(async ({ process }) => await process?.())
  return Object.assign({}, ...(await Promise.all(loaded)))
}

/** Loads the error tables of all capabilities, for the reference. */
export async function capabilityErrors(): Promise<readonly CapabilityErrors[]> {
  const loaded = Object.values(REGISTRY).map(async ({ server, errors }) => [
    (await server?.())?.errors,
    await errors?.()
  ])
  return (await Promise.all(loaded)).flat().filter((one) => one !== undefined)
}

/** Returns the commands of all capabilities in one part of `sluice --help`, with their subcommands. */
export function capabilityCommands(part: HelpPart): readonly Command[] {
  const entries = Object.values(REGISTRY)
  const commands = entries.flatMap(({ commands }) => commands?.[part]?.() ?? [])
  for (const command of commands) {
    for (const { subcommands } of entries) {
      for (const subcommand of subcommands?.[command.name()]?.() ?? []) command.addCommand(subcommand)
    }
  }
  return commands
}

/** Returns the functions that load the kinds of documents of all capabilities, by their name. */
export function documentKinds(): ReadonlyMap<string, () => Promise<DocumentKind>> {
  return new Map(Object.values(REGISTRY).flatMap(({ documents = {} }) => Object.entries(documents)))
}
