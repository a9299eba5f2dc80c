import { ControlError, controlErrors, refusedPolicy } from '../control/errors.js'
import type { Explain } from '../control/explanations.js'
import { actions } from '../features/registry.js'
import type { Geo } from '../lib/geo.js'
import { unpredictable } from '../lib/id.js'
import type { Json } from '../lib/json.js'
import { Slices } from '../lib/slices.js'
import type { Options } from '../options/options.js'
import { trustingProxies } from '../proxy/client-address.js'
import { Metrics } from '../telemetry/metrics.js'
import { CandidateSnapshot } from '../workbench/candidate-snapshot.js'
import { withoutTexts } from '../workbench/explanation-of.js'
import { Lab } from '../workbench/lab.js'
import { VirtualClock } from '../workbench/virtual-clock.js'
import type { Foundation } from './foundation.js'
import { labExpressions, labServices } from './lab.js'

/** Explains requests by what serves now: with copies of its counters, in a time of its own, and no server is asked. */
export function explainRunning(
  { region, rate_limit_headers }: Options,
  { holder, limiter, trusted, clock: running }: Foundation,
  geo: Geo
): Explain {
  return async (request) => {
    const { at = running.wall(), repeat, every, upstreamStatus, instead, counters, body, ...asked } = request
    const clock = new VirtualClock(at, running.monotonic())
    const stub = { status: upstreamStatus, headers: [], body: undefined }
    const forwarding = trustingProxies(trusted)
    const lab = new Lab({ clock, forwarding, region, stub, metrics: new Metrics(), reveal: false })
    let notAsked: string[] = []
    const services = labServices(lab, {
      clock,
      expressions: labExpressions(clock, geo, unpredictable),
      rateLimitHeaders: rate_limit_headers,
      outside: ({ url }) => void notAsked.push(originOf(url)),
      ...(counters === 'running' ? { counted: limiter } : {})
    })
    for (const [key, { source }] of instead) {
      if (holder.current().plan.units.get(key)?.kind !== 'policy') throw withoutPolicy(source)
    }
    const snapshot = new CandidateSnapshot(holder.current(), { services, actions, instead })
    const problems = snapshot.problems()
    if (problems.length > 0) throw refusedPolicy(problems)
    lab.serves(snapshot)
    const slices = Slices.besideTraffic()
    const explanations: Json[] = []
    for (let n = 0; n < repeat; n++) {
      if (n > 0) clock.advance(every)
      notAsked = []
      const explanation = await lab.ask({ ...asked, clientPort: 0, ...(body === undefined ? {} : { body }) })
      explanations.push(withoutTexts({ ...explanation, not_asked: notAsked }, snapshot.read) as unknown as Json)
      if (slices.due) await slices.rest()
    }
    return explanations
  }
}

function withoutPolicy(route: string): ControlError {
  const field = 'policies.route'
  return new ControlError(controlErrors.NOT_FOUND, `no route ${route} with a traffic policy serves here`, { field })
}

/** Of a URL what surely holds no secret. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
}
