import { relative } from 'node:path'
import type { Applied, OwnUnits } from '../control/apply.js'
import { fileUnits } from '../control/file-units.js'
import { CodedError } from '../lib/errors.js'
import { readOptionFile } from '../lib/files.js'
import type { Options } from '../options/options.js'
import type { UnitProblems } from '../policy/problems.js'
import type { PortProblem } from '../runtime/ports.js'
import type { Metrics } from '../telemetry/metrics.js'
import { agentListenerErrors } from '../tunnel/agents/listener-identity.js'
import { sharesListener } from './data-plane.js'
import { startErrors } from './errors.js'

/** The configuration at the start is refused: the problems say where and why. */
export class ConfigurationRefused extends CodedError {
  readonly problems: readonly UnitProblems[]

  constructor(problems: readonly UnitProblems[]) {
    super(startErrors.POLICY_REFUSED, 'the traffic policy has errors')
    this.problems = problems
  }
}

/**
 * Reads the files that the options name and applies them together with `listeners`; what is wrong changes nothing. Rejects
 * when a file cannot be read.
 */
export type ApplyFiles = (listeners?: Options['listeners']) => Promise<Applied>

/** Applies the files as a part of the units that belong to the process itself. */
export function filesOf(options: Options, own: OwnUnits, metrics: Metrics): ApplyFiles {
  return async (listeners = options.listeners) => {
    const { listen, path_form, upstream, upstream_ca, policy } = options
    if (sharesListener(options, options.listeners) && !sharesListener(options, listeners)) {
      throw new CodedError(
        agentListenerErrors.AGENTS_ADDRESS,
        'agents: the TLS listener that they share cannot go while the process runs'
      )
    }
    const units = fileUnits({
      listen,
      listeners,
      path_form,
      upstream,
      certificateAuthorities: upstream_ca === undefined ? undefined : await readOptionFile(upstream_ca, 'upstream_ca'),
      policy: policy === undefined ? undefined : { source: shown(policy), text: await readOptionFile(policy, 'policy') }
    })
    const applied = await own.put('files', units)
    metrics.configuration(applied.ok ? 'applied' : 'refused')
    return applied
  }
}

/** The first application, which a start cannot do without: rejects when the configuration is refused. */
export async function applyFirst(apply: ApplyFiles): Promise<Extract<Applied, { ok: true }>> {
  const applied = await apply()
  if (!applied.ok) throw refusedStart(applied)
  return applied
}

/** Why the configuration at the start is refused; a port that cannot be opened is told as the system tells it. */
function refusedStart({ problems, ports }: Extract<Applied, { ok: false }>): Error {
  const [first] = ports
  return first === undefined ? new ConfigurationRefused(problems) : systemError(first)
}

function systemError({ host, port, reason }: PortProblem): Error {
  const unresolved = reason === 'ENOTFOUND' || reason === 'EAI_AGAIN'
  const about = unresolved ? { syscall: 'getaddrinfo', hostname: host } : { syscall: 'listen', address: host, port }
  return Object.assign(new Error(`listen ${reason}: ${host}:${port}`), { code: reason, errno: undefined, ...about })
}

/** Paths below the working directory are shown relative to it. */
function shown(path: string): string {
  const near = relative(process.cwd(), path)
  return near.startsWith('..') ? path : near
}
