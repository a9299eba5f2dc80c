import { closeConnection as close } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { config } from '../fields.js'

/** Closes the client's connection at once, without an answer. */
export const closeConnectionAction = defineAction({
  type: 'close-connection',
  phases: ['on_tcp_connect', 'on_http_request'],
  config: config({}),
  configOptional: true,
  terminates: 'always',
  denies: true,
  compile: () => () => close
})
