import type { Flow } from '../../flow/flow.js'
import { EvaluationError } from '../expression.js'
import { type Cookie, requestCookies } from '../variables/cookies.js'
import { requestOf } from '../variables/message.js'
import type { FlowFunctionDefinition } from './flow-function.js'

const NO_COOKIE = new EvaluationError('absent', 'the request has no such cookie')
const NONE: readonly string[] = []

function cookie(flow: Flow, name: string): Cookie {
  const found = requestCookies(flow).get(name)?.[0]
  if (found === undefined) throw NO_COOKIE
  return found
}

const requestDefinitions: readonly FlowFunctionDefinition[] = [
  {
    signature: 'getReqHeader(string): list<string>',
    runWith: (flow, name: string) => requestOf(flow).headers.byName.get(name.toLowerCase()) ?? NONE
  },
  {
    signature: 'hasReqHeader(string): bool',
    runWith: (flow, name: string) => requestOf(flow).headers.byName.has(name.toLowerCase())
  },
  {
    signature: 'getQueryParam(string): list<string>',
    runWith: (flow, name: string) => requestOf(flow).target.parameters.get(name) ?? NONE
  },
  {
    signature: 'hasQueryParam(string): bool',
    runWith: (flow, name: string) => requestOf(flow).target.parameters.has(name)
  },
  { signature: 'getReqCookie(string): map<string, dyn>', runWith: cookie },
  { signature: 'hasReqCookie(string): bool', runWith: (flow, name: string) => requestCookies(flow).has(name) }
]

/** Functions that read the request. */
export const requestFunctions: readonly FlowFunctionDefinition[] = requestDefinitions.map((one) => ({
  ...one,
  phases: 'http'
}))
