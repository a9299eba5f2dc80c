import { apiErrorOf } from '../../src/api/errors.js'
import { guardErrors } from '../../src/capabilities/guard/errors.js'
import { applyErrors } from '../../src/capabilities/site-file/declared/site-errors.js'
import { ENTRIES } from '../../src/control/cluster/publisher.js'
import { ControlError } from '../../src/control/errors.js'
import { documentedFunctions, documentedVariables } from '../../src/expression/catalogue.js'
import { CookieStyle } from '../../src/features/login/cookies.js'
import { actions, modules } from '../../src/features/registry.js'
import { systemClock } from '../../src/lib/clock.js'
import type { ErrorRow } from '../../src/lib/errors.js'
import { noGeo } from '../../src/lib/geo.js'
import { UserAgents } from '../../src/lib/user-agent.js'
import { optionEntries } from '../../src/options/catalogue.js'
import { resultsOf } from '../../src/policy/action.js'
import { resources } from '../../src/resources/registry.js'
import { EVENT_TYPES } from '../../src/resources/resource.js'
import { TRAFFIC_FIELDS } from '../../src/telemetry/event-fields.js'

/** Everything that the tests of the surface import from the product, in one place. */
export { actions, CookieStyle, EVENT_TYPES, modules, optionEntries, resources, TRAFFIC_FIELDS }

/** Kinds of what processes on one store tell each other. */
export const boardKinds = [...new Set<string>(Object.values(ENTRIES).flat())]

/** Refusals by capabilities, which carry their status. */
const refusals: Readonly<Record<string, ErrorRow | undefined>> = { ...guardErrors, ...applyErrors }

/** The status with which the API answers a refusal of the control plane. */
export function apiStatusOf(code: string): number | undefined {
  return apiErrorOf(new ControlError(refusals[code] ?? { code }, ''))?.status
}

/** What expressions can name, as it is documented. */
export function languageCatalogue() {
  const results = resultsOf(actions)
  return {
    variables: documentedVariables({ results, clock: systemClock, geo: noGeo, userAgent: new UserAgents() }),
    functions: documentedFunctions({ random: () => 0 })
  }
}
