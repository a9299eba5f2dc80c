import type { Clock } from '../lib/clock.js'
import type { Geo } from '../lib/geo.js'
import type { UserAgents } from '../lib/user-agent.js'
import { authFunctions, base64Functions, hashFunctions } from './functions/hash.js'
import { requestFunctions, responseFunctions, secretFunctions } from './functions/http.js'
import { jsonFunctions } from './functions/json.js'
import { listFunctions } from './functions/lists.js'
import { ipFunctions } from './functions/network.js'
import { randomFunctions, standardFunctions } from './functions/standard.js'
import { stringFunctions } from './functions/strings.js'
import { timeFunctions } from './functions/time.js'
import { queryStringFunctions, urlFunctions } from './functions/url.js'
import type { FlowFunctionDefinition, FunctionDefinition } from './signatures.js'
import { type ActionResults, actionVariables, timeVariables, varsVariables } from './variables/actions.js'
import {
  addressVariables,
  connVariables,
  endpointVariables,
  geoVariables,
  tlsVariables,
  userAgentVariables
} from './variables/connection.js'
import type { VariableDefinition } from './variables/definition.js'
import { requestVariables, responseVariables } from './variables/http.js'

/** Returns every variable of the language. */
export function documentedVariables(sources: {
  readonly results: ActionResults
  readonly clock: Clock
  readonly geo: Geo
  readonly userAgent: UserAgents
}): readonly VariableDefinition[] {
  return [
    ...connVariables,
    ...geoVariables(sources.geo),
    ...addressVariables(sources.geo),
    ...tlsVariables,
    ...endpointVariables,
    ...requestVariables,
    ...userAgentVariables(sources.userAgent),
    ...responseVariables,
    ...timeVariables(sources.clock),
    ...varsVariables,
    ...actionVariables(sources.results)
  ]
}

/** Returns every function of the language. Earlier overloads take precedence over later ones of the same signature. */
export function documentedFunctions(sources: {
  readonly random: () => number
}): readonly (FunctionDefinition | FlowFunctionDefinition)[] {
  return [
    ...standardFunctions,
    ...stringFunctions,
    ...listFunctions,
    ...timeFunctions,
    ...hashFunctions,
    ...base64Functions,
    ...jsonFunctions,
    ...queryStringFunctions,
    ...urlFunctions,
    ...authFunctions,
    ...ipFunctions,
    ...requestFunctions,
    ...responseFunctions,
    ...randomFunctions(sources.random),
    ...secretFunctions
  ]
}
