import type { Command } from 'commander'
import type { Capability } from '../app/capability.js'
import { limitsCommand } from './limits/command.js'

/** The entries of a capability; each is loaded only where it runs. */
interface Entry {
  /** Loads the part of the server. */
  readonly server?: () => Promise<Capability>
  /** Returns the commands with their flags; their work is loaded when they run. */
  readonly commands?: () => readonly Command[]
}

/** All capabilities, one line each, in the order in which they open. */
const REGISTRY: Readonly<Record<string, Entry>> = {
  certificates: { server: async () => (await import('./certificates/capability.js')).certificates },
  events: { server: async () => (await import('./events/capability.js')).events },
  explain: { server: async () => (await import('./explain/capability.js')).explain },
  recorder: { server: async () => (await import('./recorder/capability.js')).recorder },
  shadow: { server: async () => (await import('./shadow/capability.js')).shadow },
  'site-file': { server: async () => (await import('./site-file/capability.js')).siteFile },
  transfer: { server: async () => (await import('./transfer/capability.js')).transfer },
  limits: {
    server: async () => (await import('./limits/capability.js')).limits,
    commands: () => [limitsCommand()]
  }
}

/** Loads the capabilities that run in a server. */
export async function serverCapabilities(): Promise<readonly Capability[]> {
  const loaded = Object.values(REGISTRY).map(async ({ server }) => await server?.())
  return (await Promise.all(loaded)).filter((one) => one !== undefined)
}

/** Returns the commands of all capabilities. */
export function capabilityCommands(): readonly Command[] {
  return Object.values(REGISTRY).flatMap(({ commands }) => commands?.() ?? [])
}
