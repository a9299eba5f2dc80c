/**
 * Kinds of SQL tokens, the letters of a fingerprint:
 *
 * - values: `s` string, `1` number or NULL, `t` TRUE or FALSE, `v` variable, `n` name, `f` function with `(`, `D` function that attacks use
 * - operators: `&` AND, OR; `|` the same as symbols; `o` comparison; `w` comparison by a word; `z` IS NULL; `+` concatenation; `-` minus; `a` arithmetic
 * - statements: `U` UNION, `E` SELECT, `T` a statement that changes data or structure, `W` a statement of SQL Server, `B` ORDER BY and
 *   the like, `K` INTO OUTFILE, `C` CASE, `N` NOT, `k` other keywords
 * - the rest: `( ) , ; .`, `c` comment at the end, `l` the same with more than a word in it, `X` comment in a comment, `?` anything else
 */
export type SqlKind = string

/** Keywords by kind. Words of everyday language are no keywords here unless a pattern needs them. */
const KEYWORDS: Readonly<Record<SqlKind, string>> = {
  '&': 'and or xor',
  w: 'like ilike rlike regexp',
  a: 'div mod',
  U: 'union',
  E: 'select',
  B: 'having',
  C: 'case',
  N: 'not binary',
  t: 'true false',
  '1': 'null',
  k: 'from where limit values set offset into as then when'
}

/** Functions that attacks use to wait, to read files and to leak data by errors. */
const DANGEROUS =
  'sleep pg_sleep pg_sleep_for benchmark load_file extractvalue updatexml xp_cmdshell xp_dirtree randomblob load_extension sys_eval ' +
  'sys_exec lo_import lo_export pg_read_file pg_ls_dir receive_message utl_inaddr httpuritype dbms_xmlgen sqlite_version get_lock gtid_subset gtid_subtract get_host_address drithsx'

/** Other functions of SQL that conditions call. */
const FUNCTIONS =
  'ascii substr substring substring_index mid concat concat_ws group_concat char chr ord hex unhex version database user current_user ' +
  'session_user system_user schema length char_length len if iif ifnull isnull nullif coalesce count cast convert exists left right lpad ' +
  'rpad elt make_set row floor rand random md5 sha1 now bin pow power abs strcmp instr locate position lower upper reverse replace ' +
  'bit_count conv json_keys to_char xmltype decode nvl greatest least max min sum any some all exp polygon multipoint name_const'

/** Pairs of words and the kind of the token that they make. */
const PAIRS: Readonly<Record<SqlKind, string>> = {
  U: 'union all,union distinct',
  T:
    'drop table,drop database,drop schema,drop view,drop user,drop column,drop procedure,drop function,delete from,insert into,' +
    'truncate table,alter table,alter user,alter database,create table,create user,create database,create function,create or,' +
    'grant all,grant select,replace into,merge into,load data,copy from',
  W: 'waitfor delay,waitfor time,exec master,exec xp_cmdshell,exec sp_executesql,execute immediate,exec sp_configure',
  B: 'order by,group by,partition by',
  K: 'into outfile,into dumpfile',
  w: 'not like,not regexp,not rlike,similar to,sounds like',
  z: 'is null,is true,is false,isnull null,notnull null',
  N: 'is not'
}

const entries = (table: Readonly<Record<SqlKind, string>>, separator: string) =>
  Object.entries(table).flatMap(([kind, words]) => words.split(separator).map((word) => [word, kind] as const))

/** Kind of a word alone. */
export const SQL_WORDS: ReadonlyMap<string, SqlKind> = new Map(entries(KEYWORDS, ' '))

/** Kind of two words with one space between them. */
export const SQL_PAIRS: ReadonlyMap<string, SqlKind> = new Map(entries(PAIRS, ','))

/** Kind of a word before an opening parenthesis. */
export const SQL_FUNCTIONS: ReadonlyMap<string, SqlKind> = new Map(entries({ f: FUNCTIONS, D: DANGEROUS }, ' '))

/** Words that are no keywords by themselves and can begin something that an attack is made of. */
export const SQL_STARTS: ReadonlySet<string> = new Set([
  ...[...SQL_PAIRS.keys()].map((pair) => pair.slice(0, pair.indexOf(' '))),
  ...SQL_FUNCTIONS.keys(),
  ...['in', 'update', 'declare', 'shutdown', 'collate']
])
