import type { Resource } from '../resources/resource.js'
import type { Account } from './account.js'
import { callOf, type Handler, parameter, pathOf, type Router, route } from './calls.js'
import { readPage } from './resource-routes.js'

/** A collection that can be listed below a record that its entries refer to. */
interface Nested {
  /** Names of the resources. */
  readonly parent: string
  readonly child: string
  /** Field of the child that refers to the parent. */
  readonly field: string
  readonly name: string
}

const NESTED: readonly Nested[] = [{ parent: 'vault', child: 'vault_secret', field: 'vault', name: 'secrets' }]

/** The nested lists whose resources are both there. */
export function nestedLists(resources: readonly Resource[]): { parent: Resource; child: Resource; nested: Nested }[] {
  return NESTED.flatMap((nested) => {
    const parent = resources.find(({ name }) => name === nested.parent)
    const child = resources.find(({ name }) => name === nested.child)
    return parent === undefined || child === undefined ? [] : [{ parent, child, nested }]
  })
}

export function addNestedRoutes(
  router: Router,
  resources: readonly Resource[],
  account: Account,
  baseUrl: () => string
): void {
  for (const { parent, child, nested } of nestedLists(resources)) {
    route(router, 'GET', `${parent.path}/{id}/${nested.name}`, {}, listNested(parent, child, nested, account, baseUrl))
  }
}

function listNested(
  parent: Resource,
  child: Resource,
  nested: Nested,
  account: Account,
  baseUrl: () => string
): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    account.permit(child, 'list', call)
    const path = pathOf(request)
    const id = parameter(path, 'id')
    const page = readPage(request)
    await account.get(parent, { path }, call)
    const serving = account.revision
    const referring = { field: nested.field, kind: parent.name, id }
    const body = (await account.list(child, { path: {}, ...page, referring }, call)) as Readonly<
      Record<string, unknown>
    >
    const uri = `${baseUrl()}${parent.path}/${id}/${nested.name}`
    const next = typeof body.next_page_uri === 'string' ? `${uri}${new URL(body.next_page_uri).search}` : null
    return reply.header('service-revision', String(serving)).send({ ...body, uri, next_page_uri: next })
  }
}
