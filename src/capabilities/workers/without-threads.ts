import type { Options } from '../../options/options.js'

/** Why traffic must be carried by one thread with these options: what threads cannot do. Empty: nothing stands against several. */
export function withoutThreads({ agents, listeners }: Pick<Options, 'agents' | 'listeners'>): string[] {
  if (agents === undefined || agents.port === 0) return []
  if (!listeners.some(({ listen }) => listen.host === agents.host && listen.port === agents.port)) return []
  return ['agents: they cannot share a listener of traffic with threads; give them an address of their own']
}
