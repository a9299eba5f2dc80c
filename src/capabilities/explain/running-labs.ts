import { fileServers } from '../../app/data-plane.js'
import type { Foundation } from '../../app/foundation.js'
import type { CandidatePolicies } from '../../control/candidate-policies.js'
import { ControlError, controlErrors, refusedPolicy } from '../../control/errors.js'
import { actions } from '../../features/registry.js'
import type { Clock } from '../../lib/clock.js'
import type { Geo } from '../../lib/geo.js'
import { unpredictable } from '../../lib/id.js'
import { Slices } from '../../lib/slices.js'
import type { Options } from '../../options/options.js'
import type { PolicyServices } from '../../policy/services.js'
import { trustingProxies } from '../../proxy/client-address.js'
import { Metrics } from '../../telemetry/metrics.js'
import type { Explanation } from './answers.js'
import { CandidateSnapshot } from './candidate-snapshot.js'
import { withoutTexts } from './explanation-of.js'
import type { Explain } from './explanations.js'
import { Lab } from './lab.js'
import { firewallOf, labExpressions, labServices } from './running-lab.js'
import { VirtualClock } from './virtual-clock.js'

/** Options for opening a lab over the running configuration. */
interface RunningLabStart {
  /** Wall time of the lab, milliseconds. */
  readonly at: number
  /** Policies instead of those that serve, by the keys of their units. */
  readonly instead: CandidatePolicies
  readonly counters: 'running' | 'empty'
  readonly upstreamStatus: number
  /** Shows values whose names look secret, too. */
  readonly reveal: boolean
  /** Numbers in [0, 1). */
  readonly random: () => number
}

/** A lab in which the configuration that serves decides. */
interface RunningLab {
  readonly lab: Lab
  readonly clock: VirtualClock
  readonly snapshot: CandidateSnapshot
  /** Returns the servers that policies would have called since the last call. */
  readonly takeNotAsked: () => string[]
}

/** Opens labs over the running configuration, with copies of its counters, their own clock, and no outbound calls. */
export type OpenRunningLab = (start: RunningLabStart) => Promise<RunningLab>

/** Rejects with a ControlError for policies with errors, and where no policy serves. */
export function runningLabs(
  options: Options,
  { holder, limiter, trusted, clock: running }: Pick<Foundation, 'holder' | 'limiter' | 'trusted' | 'clock'>,
  { geo, services: own }: { readonly geo: Geo; readonly services: Pick<PolicyServices, 'service'> }
): OpenRunningLab {
  const { region, rate_limit_headers } = options
  const files = fileServers(options, running)
  return async ({ at, instead, counters, upstreamStatus, reveal, random }) => {
    const clock = new VirtualClock(at, running.monotonic())
    const stub = { status: upstreamStatus, headers: [], body: undefined }
    const forwarding = trustingProxies(trusted)
    const lab = new Lab({ clock, forwarding, region, stub, files, metrics: new Metrics(), reveal })
    let notAsked: string[] = []
    const services = labServices(lab, {
      clock,
      expressions: labExpressions(clock, geo, random),
      rateLimitHeaders: rate_limit_headers,
      limitRules: options.limiter,
      firewall: firewallOf(own),
      outside: ({ url }) => void notAsked.push(originOf(url)),
      ...(counters === 'running' ? { counted: limiter } : {})
    })
    for (const [key, { source }] of instead) {
      if (holder.current().plan.units.get(key)?.kind !== 'policy') throw withoutPolicy(source)
    }
    const snapshot = new CandidateSnapshot(holder.current(), { services, actions, instead })
    const problems = await Slices.besideTraffic().run(snapshot.checking())
    if (problems.length > 0) throw refusedPolicy(problems)
    lab.serves(snapshot)
    const takeNotAsked = () => {
      const asked = notAsked
      notAsked = []
      return asked
    }
    return { lab, clock, snapshot, takeNotAsked }
  }
}

/** Creates explanations by the running configuration. */
export function explainRunning(open: OpenRunningLab, running: Clock): Explain {
  return async (request) => {
    const { at = running.wall(), repeat, every, upstreamStatus, instead, counters, body, ...asked } = request
    const start = { at, instead, counters, upstreamStatus, reveal: false, random: unpredictable }
    const { lab, clock, snapshot, takeNotAsked } = await open(start)
    const slices = Slices.besideTraffic()
    const explanations: Explanation[] = []
    for (let n = 0; n < repeat; n++) {
      if (n > 0) clock.advance(every)
      const explanation = await lab.ask({ ...asked, clientPort: 0, ...(body === undefined ? {} : { body }) })
      const shown = { ...explanation, not_asked: takeNotAsked() }
      explanations.push(withoutTexts(shown, snapshot.read))
      if (slices.due) await slices.rest()
    }
    return explanations
  }
}

function withoutPolicy(route: string): ControlError {
  const field = 'policies.route'
  return new ControlError(controlErrors.NOT_FOUND, `no route ${route} with a traffic policy serves here`, { field })
}

/** Returns the origin of a URL; the rest may contain a secret. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
}
