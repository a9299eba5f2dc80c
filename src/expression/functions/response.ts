import type { Flow } from '../../flow/flow.js'
import { EvaluationError } from '../expression.js'
import { type Cookie, responseCookies } from '../variables/cookies.js'
import { responseOf } from '../variables/message.js'
import type { FlowFunctionDefinition } from './flow-function.js'

const NO_SET_COOKIE = new EvaluationError('absent', 'the response sets no such cookie')
const NONE: readonly string[] = []

function setCookie(flow: Flow, name: string): Cookie {
  const found = responseCookies(flow).get(name)?.[0]
  if (found === undefined) throw NO_SET_COOKIE
  return found
}

const responseDefinitions: readonly FlowFunctionDefinition[] = [
  {
    signature: 'getResHeader(string): list<string>',
    runWith: (flow, name: string) => responseOf(flow).headers.byName.get(name.toLowerCase()) ?? NONE
  },
  {
    signature: 'hasResHeader(string): bool',
    runWith: (flow, name: string) => responseOf(flow).headers.byName.has(name.toLowerCase())
  },
  { signature: 'getResCookie(string): map<string, dyn>', runWith: setCookie },
  { signature: 'hasResCookie(string): bool', runWith: (flow, name: string) => responseCookies(flow).has(name) }
]

/** Functions that read the response; of cookies of one name the one with the longest path. */
export const responseFunctions: readonly FlowFunctionDefinition[] = responseDefinitions.map((one) => ({
  ...one,
  phases: 'response'
}))
