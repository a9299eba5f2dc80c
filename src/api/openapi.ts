import { type NamedReference, namedReferences } from '../control/edits.js'
import { isWarnedOf } from '../control/record-rules.js'
import { memberRights } from '../control/rights.js'
import type { Operation, Part, Resource } from '../resources/resource.js'
import { ref } from '../schema/answer.js'
import { createSchema, listSchema, moduleSchemas, responseSchema, title, updateSchema } from '../schema/json-schema.js'
import { describeGroup, type RouteGroup } from './define-route.js'
import {
  answer,
  DRY_RUN_SCHEMA,
  ERROR_SCHEMA,
  type Operations,
  operation,
  PARAMETERS,
  type Paths,
  parametersOf,
  rightsText,
  WARNING_SCHEMA,
  withWarnings
} from './openapi-parts.js'
import { LIST_PARAMETERS, nestedLists } from './resource-routes.js'

type Schemas = Record<string, object>
type ItemSchema = Parameters<typeof listSchema>[1]

/** Facts about the program in the document. */
interface Product {
  /** Scheme, host and port of the API as clients see it. */
  readonly baseUrl: string
  readonly version: string
  /** Routes that belong to no resource. */
  readonly groups: readonly RouteGroup<never>[]
  /** Adds fields of capabilities to the answers about a record. @default none */
  readonly describesRecord?: ((resource: Resource, schema: object) => object) | undefined
}

/** The description of the API (OpenAPI 3.1), generated from the declarations of the resources. */
export function openApiDocument(resources: readonly Resource[], product: Product): object {
  const paths: Paths = {}
  const schemas: Schemas = { Error: ERROR_SCHEMA, DryRun: DRY_RUN_SCHEMA, PolicyWarning: WARNING_SCHEMA }
  for (const resource of resources) {
    describeResource(resource, paths, schemas, product)
    for (const name of resource.modules) describeModule(resource, name, paths, schemas)
    for (const name of resource.clearable) describeClearable(resource, name, paths)
    for (const part of resource.parts) describePart(resource, part, paths, schemas)
  }
  for (const { parent, child, nested } of nestedLists(resources)) {
    const path = `${parent.path}/{id}/${nested.name}`
    const lists = list(child, title(child.name), `${parent.name}_${child.name}`)
    paths[path] = { ...parametersOf(path), ...lists }
  }
  const parameters: Record<string, object> = { ...PARAMETERS }
  const serviceTags = product.groups.flatMap((group) => describeGroup(group, { paths, schemas, parameters }))
  return {
    openapi: '3.1.0',
    info: { title: 'Sluice management API', version: product.version, description: rightsText(resources) },
    servers: [{ url: product.baseUrl }],
    security: [{ key: [] }],
    tags: [...resources.map(({ name, description }) => ({ name: title(name), description })), ...serviceTags],
    paths: link(schemas, paths) as Paths,
    components: {
      schemas: Object.fromEntries(
        Object.entries(schemas).map(([name, schema]) => [name, link(schemas, schema, true) as object])
      ),
      parameters,
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'An API key.' } }
    }
  }
}

const NOT_MODIFIED = { 304: { description: 'The client has it already.' } }

/** Replaces each schema that is a component by a reference to it, so that clients generate it once. `root`: the component itself. */
function link(schemas: Schemas, schema: unknown, root = false): unknown {
  if (Array.isArray(schema)) return schema.map((entry) => link(schemas, entry))
  if (typeof schema !== 'object' || schema === null) return schema
  const { title: name } = schema as { readonly title?: unknown }
  if (!root && typeof name === 'string' && Object.hasOwn(schemas, name)) return ref(name)
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, link(schemas, value)]))
}

function describeResource(resource: Resource, paths: Paths, schemas: Schemas, product: Product): void {
  const name = title(resource.name)
  const has = (operation: Operation) => resource.operations.includes(operation)
  const answered = responseSchema(resource)
  const shown = product.describesRecord?.(resource, answered) ?? answered
  schemas[name] = resource.modules.some(isWarnedOf) ? withWarnings(shown) : shown
  if (has('create')) schemas[`${name}Create`] = withNames(createSchema(resource), namedReferences(resource))
  if (has('update')) schemas[`${name}Update`] = updateSchema(resource)
  if (has('list')) schemas[`${name}List`] = listSchema(resource, ref(name) as ItemSchema)
  const parents = parametersOf(resource.path)
  const collection = { ...(has('list') ? list(resource) : {}), ...(has('create') ? create(resource) : {}) }
  if (Object.keys(collection).length > 0) paths[resource.path] = { ...parents, ...collection }
  const item = `${resource.path}/{id}`
  const one = {
    ...(has('get') ? get(resource) : {}),
    ...(has('update') ? update(resource) : {}),
    ...(has('delete') ? remove(resource) : {})
  }
  if (Object.keys(one).length > 0) paths[item] = { ...parametersOf(item), ...one }
}

/** A creation may name some targets instead of giving their ids. */
function withNames(schema: object, named: readonly NamedReference[]): object {
  if (named.length === 0) return schema
  const { properties, required = [], ...rest } = schema as { properties: object; required?: readonly string[] }
  const names = Object.fromEntries(
    named.map(({ name, id }) => [name, { type: 'string', description: `Instead of ${id}.` }])
  )
  const eachOne = named.map(({ name, id }) => ({ oneOf: [{ required: [id] }, { required: [name] }] }))
  return {
    ...rest,
    properties: { ...properties, ...names },
    required: required.filter((field) => !named.some(({ id }) => id === field)),
    allOf: eachOne
  }
}

function list(resource: Resource, shown = title(resource.name), id = resource.name): Operations {
  const { description } = resource
  return {
    get: operation(`${id}_list`, shown, `Lists, newest first: ${description}`, {
      member: memberRights(resource).read,
      parameters: LIST_PARAMETERS,
      responses: { 200: answer('One page.', ref(`${shown}List`)) }
    })
  }
}

function create(resource: Resource): Operations {
  const { name, description } = resource
  return {
    post: operation(`${name}_create`, title(name), `Creates: ${description}`, {
      member: memberRights(resource).create,
      parameters: ['force', 'dry_run'],
      body: ref(`${title(name)}Create`),
      responses: { 201: answer('What was created.', ref(title(name)), ['etag']) }
    })
  }
}

function get(resource: Resource): Operations {
  const { name, description } = resource
  return {
    get: operation(`${name}_get`, title(name), `Reads one: ${description}`, {
      member: memberRights(resource).read,
      parameters: ['if_none_match'],
      responses: { ...NOT_MODIFIED, 200: answer('The record.', ref(title(name)), ['etag']) }
    })
  }
}

function update(resource: Resource): Operations {
  const { name } = resource
  return {
    patch: operation(`${name}_update`, title(name), 'Changes what the body gives and leaves the rest.', {
      member: memberRights(resource).update,
      parameters: ['if_match', 'force', 'dry_run'],
      body: ref(`${title(name)}Update`),
      responses: { 200: answer('The record as it is now.', ref(title(name)), ['etag']) }
    })
  }
}

function remove(resource: Resource): Operations {
  const { name } = resource
  return {
    delete: operation(`${name}_delete`, title(name), 'Deletes it.', {
      member: memberRights(resource).delete,
      parameters: ['if_match', 'force', 'dry_run'],
      responses: { 204: answer('It is deleted.') }
    })
  }
}

function describeModule(resource: Resource, module: string, paths: Paths, schemas: Schemas): void {
  const name = title(resource.name)
  const { request, response } = moduleSchemas(resource, module)
  const { read, update } = memberRights(resource)
  const shown = `${name}${title(module)}`
  const description = resource.fields[module]?.description ?? ''
  schemas[`${shown}Replace`] = request
  schemas[shown] = isWarnedOf(module) ? withWarnings(response) : response
  const path = `${resource.path}/{id}/${module}`
  const id = `${resource.name}_${module}`
  paths[path] = {
    ...parametersOf(path),
    put: operation(`${id}_replace`, name, `Replaces the module: ${description}`, {
      member: update,
      parameters: ['if_match', 'force', 'dry_run'],
      body: ref(`${shown}Replace`),
      responses: { 200: answer('The module as it is now.', ref(shown), ['etag']) }
    }),
    get: operation(`${id}_get`, name, `Reads the module: ${description}`, {
      member: read,
      parameters: ['if_none_match'],
      responses: { ...NOT_MODIFIED, 200: answer('The module; 404 when it is not configured.', ref(shown), ['etag']) }
    }),
    delete: operation(`${id}_delete`, name, `Removes the module: ${description}`, {
      member: update,
      parameters: ['if_match', 'force', 'dry_run'],
      responses: { 204: answer('The module is not configured any more.') }
    })
  }
}

function describeClearable(resource: Resource, field: string, paths: Paths): void {
  const path = `${resource.path}/{id}/${field}`
  paths[path] = {
    ...parametersOf(path),
    delete: operation(`${resource.name}_${field}_delete`, title(resource.name), `Clears ${field}.`, {
      member: memberRights(resource).update,
      parameters: ['if_match', 'force', 'dry_run'],
      responses: { 204: answer('It is cleared.') }
    })
  }
}

function describePart(resource: Resource, part: Part, paths: Paths, schemas: Schemas): void {
  const name = title(resource.name)
  const { request, response } = resource.fields[part.field] as unknown as Record<'request' | 'response', ListOf>
  const shown = `${name}${title(part.name)}`
  const { read, update } = memberRights(resource)
  schemas[`${shown}Add`] = request.items
  schemas[`${shown}Entry`] = response.items
  schemas[`${shown}List`] = {
    type: 'object',
    properties: { [part.name]: { type: 'array', items: ref(`${shown}Entry`) }, uri: { type: 'string' } },
    required: [part.name, 'uri']
  }
  const path = `${resource.path}/{id}/${part.name}`
  const one = `${path}/{${part.key}}`
  const id = `${resource.name}_${part.name}`
  const entry = ref(`${shown}Entry`)
  const body = ref(`${shown}Add`)
  paths[path] = {
    ...parametersOf(path),
    get: operation(`${id}_list`, name, `Lists ${part.name}.`, {
      member: read,
      responses: { 200: answer('All entries.', ref(`${shown}List`)) }
    }),
    post: operation(`${id}_create`, name, `Adds to ${part.name}.`, {
      member: update,
      parameters: ['if_match', 'dry_run'],
      body,
      responses: { 201: answer('What was added.', entry) }
    })
  }
  paths[one] = {
    ...parametersOf(one),
    get: operation(`${id}_get`, name, `Reads one of ${part.name}.`, {
      member: read,
      responses: { 200: answer('The entry.', entry) }
    }),
    patch: operation(`${id}_update`, name, `Changes one of ${part.name}.`, {
      member: update,
      parameters: ['if_match', 'dry_run'],
      body,
      responses: { 200: answer('The entry as it is now.', entry) }
    }),
    delete: operation(`${id}_delete`, name, `Removes one of ${part.name}.`, {
      member: update,
      parameters: ['if_match', 'dry_run'],
      responses: { 204: answer('It is removed.') }
    })
  }
}

interface ListOf {
  readonly items: object
}
