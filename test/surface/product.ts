import { apiErrorOf } from '../../src/api/errors.js'
import { ControlError } from '../../src/control/control-error.js'
import { ENTRIES } from '../../src/control/live-entries.js'
import { documentedFunctions, documentedVariables } from '../../src/expression/documented.js'
import { systemClock } from '../../src/lib/clock.js'
import { noGeo } from '../../src/lib/geo.js'
import { UserAgents } from '../../src/lib/user-agent.js'
import { modules } from '../../src/modules/registry.js'
import { optionEntries } from '../../src/options/catalogue.js'
import { actions } from '../../src/policy/actions/registry.js'
import { CookieStyle } from '../../src/policy/login/cookies.js'
import { EVENT_TYPES } from '../../src/resources/event-types.js'
import { resources } from '../../src/resources/registry.js'
import { TRAFFIC_FIELDS } from '../../src/resources/traffic-fields.js'

/** Everything that the tests of the surface import from the product, in one place. */
export { actions, CookieStyle, EVENT_TYPES, modules, optionEntries, resources, TRAFFIC_FIELDS }

/** Kinds of what processes on one store tell each other. */
export const boardKinds = [...new Set<string>(Object.values(ENTRIES).flat())]

/** The status with which the API answers a refusal of the control plane. */
export function apiStatusOf(code: string): number | undefined {
  return apiErrorOf(new ControlError(code, ''))?.status
}

/** What expressions can name, as it is documented. */
export function languageCatalogue() {
  const results = Object.fromEntries(
    actions.flatMap((action) =>
      action.availability === 'unsupported' || action.results === undefined
        ? []
        : [[action.results.name, action.results.fields]]
    )
  )
  return {
    variables: documentedVariables({ results, clock: systemClock, geo: noGeo, userAgent: new UserAgents() }),
    functions: documentedFunctions({ random: () => 0 })
  }
}
