import type { Clock } from '../lib/clock.js'
import type { Geo } from '../lib/geo.js'
import type { UserAgents } from '../lib/user-agent.js'
import type { FunctionDefinition } from './function-definition.js'
import { authFunctions } from './functions/auth.js'
import { base64Functions } from './functions/base64.js'
import type { FlowFunctionDefinition } from './functions/flow-function.js'
import { hashFunctions } from './functions/hash.js'
import { ipFunctions } from './functions/ip.js'
import { jsonFunctions } from './functions/json.js'
import { listFunctions } from './functions/lists.js'
import { queryStringFunctions } from './functions/query-string.js'
import { randomFunctions } from './functions/random.js'
import { requestFunctions } from './functions/request.js'
import { responseFunctions } from './functions/response.js'
import { secretFunctions } from './functions/secrets.js'
import { standardFunctions } from './functions/standard.js'
import { stringFunctions } from './functions/strings.js'
import { timeFunctions } from './functions/time.js'
import { urlFunctions } from './functions/url.js'
import { type ActionResults, actionVariables } from './variables/actions.js'
import { connVariables } from './variables/conn.js'
import type { VariableDefinition } from './variables/definition.js'
import { endpointVariables } from './variables/endpoint.js'
import { addressVariables, geoVariables } from './variables/geo.js'
import { requestVariables } from './variables/request.js'
import { responseVariables } from './variables/response.js'
import { timeVariables } from './variables/time.js'
import { tlsVariables } from './variables/tls.js'
import { userAgentVariables } from './variables/user-agent.js'
import { varsVariables } from './variables/vars.js'

/** Every variable of the language. */
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

/** Every function of the language. An overload that stands earlier wins over a later one of the same signature. */
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
