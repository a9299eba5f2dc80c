import type { Options } from '../../options/options.js'

/** Returns the reasons why these options do not support workers. Empty if workers are supported. */
export function withoutThreads({ agents, listeners }: Pick<Options, 'agents' | 'listeners'>): string[] {
  if (agents === undefined || agents.port === 0) return []
  if (!listeners.some(({ listen }) => listen.host === agents.host && listen.port === agents.port)) return []
  return ['agents: they cannot share a listener of traffic with threads; give them an address of their own']
}
