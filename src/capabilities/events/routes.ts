import type { FastifyRequest } from 'fastify'
import { type Account, callOf, invalidParameter, LIMIT, queryOf, readCount, serving } from '../../api/calls.js'
import { type Handler, parameter, pathOf, type Router, route } from '../../api/routes.js'
import { mustSayNothing } from '../../api/service-routes.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { DeadLetterLists } from './dead-letters.js'

export const TEST_PATH = `${eventDestination.path}/{id}/test`
export const REDELIVER_PATH = `${eventDestination.path}/{id}/redeliver`
export const LETTERS_PATH = `${eventDestination.path}/{id}/dead_letters`
export const LETTER_PATH = `${LETTERS_PATH}/{letter_id}`

/** What is done with event destinations beside writing them. */
export function addEventRoutes(router: Router, account: Account): void {
  route(router, 'POST', TEST_PATH, { body: 'optional' }, test(account))
  route(router, 'GET', LETTERS_PATH, {}, list(account))
  route(router, 'GET', LETTER_PATH, {}, get(account))
  route(router, 'POST', REDELIVER_PATH, { body: 'optional' }, redeliver(account))
  route(router, 'POST', `${LETTER_PATH}/redeliver`, { body: 'optional' }, redeliver(account))
  route(router, 'DELETE', LETTERS_PATH, {}, drop(account))
  route(router, 'DELETE', LETTER_PATH, {}, drop(account))
}

/** Sends a test event to a destination; what came of it is the answer, and nothing is written. */
function test(account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const path = pathOf(request)
    mustSayNothing(request.body, parameter(path, 'id'))
    return reply.send(await account.records.testDestination({ path }, call))
  }
}

function list(account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    const query = queryOf(request, ['before_id', 'limit'])
    const limit = readCount(query, 'limit', LIMIT)
    const cursor = query.get('before_id')
    const before = cursor === undefined ? undefined : DeadLetterLists.numberOf(cursor)
    if (cursor !== undefined && before === undefined) {
      throw invalidParameter('before_id', 'must be the id of a dead letter')
    }
    return serving(reply, account).send(await account.deadLetters.list({ ...target(request), limit, before }, call))
  }
}

function get(account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const letter = parameter(pathOf(request), 'letter_id')
    return serving(reply, account).send(await account.deadLetters.get({ ...target(request), letter }, call))
  }
}

/** One, or all where the path names none. */
function redeliver(account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const { letter_id: letter, id = '' } = pathOf(request)
    mustSayNothing(request.body, letter ?? id)
    const redelivered = await account.deadLetters.redeliver({ ...target(request), ...named(letter) }, call)
    return serving(reply, account).send({ redelivered })
  }
}

/** One, or all where the path names none. */
function drop(account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    await account.deadLetters.drop({ ...target(request), ...named(pathOf(request).letter_id) }, call)
    return serving(reply, account).code(204).send()
  }
}

function target(request: FastifyRequest): { path: { id: string } } {
  return { path: { id: parameter(pathOf(request), 'id') } }
}

function named(letter: string | undefined): { letter?: string } {
  return letter === undefined ? {} : { letter }
}
