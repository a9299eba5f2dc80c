import { createServer as createTcpServer } from 'node:net'
import { formatAuthority } from '../lib/host.js'
import { IN_MEMORY } from '../options/fields.js'
import { type LoadInput, loadOptions } from '../options/load.js'

/** Where agents connect to the demo. */
export const DEMO_AGENTS = { host: '127.0.0.1', port: 4443 } as const

export interface DemoInput {
  readonly input: LoadInput
  /** The port belongs to another process: the demo runs without agents. */
  readonly agentsTaken: boolean
}

/**
 * The demo's options with a port for agents, unless somebody has said where agents connect, nothing is kept on disk (agents
 * could trust nobody), or the port is taken: two demos on one machine must both start.
 */
export async function withDemoAgents(input: LoadInput): Promise<DemoInput> {
  const without = { input, agentsTaken: false }
  const loaded = await loadOptions(input)
  if (!loaded.ok || loaded.options.agents !== undefined || loaded.options.data === IN_MEMORY) return without
  const flag = { flag: '--demo', option: 'agents', text: formatAuthority(DEMO_AGENTS.host, DEMO_AGENTS.port) }
  const further = { ...input, flags: [...input.flags, flag] }
  // Another option may have the port.
  if (!(await loadOptions(further)).ok) return without
  return (await isFree(DEMO_AGENTS)) ? { input: further, agentsTaken: false } : { input, agentsTaken: true }
}

async function isFree(at: { readonly host: string; readonly port: number }): Promise<boolean> {
  const server = createTcpServer()
  const bound = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(at, () => resolve(true))
  })
  if (bound) await new Promise((resolve) => server.close(resolve))
  return bound
}
