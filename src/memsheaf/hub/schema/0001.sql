-- The hub on PostgreSQL 15 or later. Run in one transaction by a login with CREATEROLE and CREATE on the database.
--
-- memsheaf_owner    owns everything, cannot log in; the functions that write run as it
-- memsheaf_member   what every member is in: may call the functions, and read what the policies show
-- memsheaf_service  servers: the same, for the member that the setting memsheaf.member names
DO $$
BEGIN
  IF to_regrole('memsheaf_owner') IS NULL THEN CREATE ROLE memsheaf_owner NOLOGIN CREATEROLE; END IF;
  IF NOT pg_has_role(current_user, 'memsheaf_owner', 'USAGE') THEN
    EXECUTE format('GRANT memsheaf_owner TO %I', current_user);
  END IF;
END $$;
CREATE SCHEMA memsheaf AUTHORIZATION memsheaf_owner;
SET LOCAL ROLE memsheaf_owner;
DO $$
BEGIN
  IF to_regrole('memsheaf_member') IS NULL THEN
    CREATE ROLE memsheaf_member NOLOGIN;
    CREATE ROLE memsheaf_service NOLOGIN IN ROLE memsheaf_member;
  END IF;
END $$;
ALTER DEFAULT PRIVILEGES IN SCHEMA memsheaf REVOKE ALL ON TABLES FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
GRANT USAGE ON SCHEMA memsheaf TO memsheaf_member;

CREATE TABLE memsheaf.about (version int NOT NULL);
INSERT INTO memsheaf.about VALUES (0);
GRANT SELECT ON memsheaf.about TO memsheaf_member;
-- The oldest client that may write; each connection says in `memsheaf.client` which it is.
CREATE FUNCTION memsheaf.min_client() RETURNS int LANGUAGE sql STABLE RETURN 1;
CREATE FUNCTION memsheaf.is_too_old() RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('memsheaf.client', true), '')::int < memsheaf.min_client(), false);

-- Every key begins with the namespace, by which all tables are divided; no statement names more than one.
CREATE TABLE memsheaf.spaces (
  namespace text COLLATE "C", epoch uuid NOT NULL DEFAULT gen_random_uuid(), created timestamptz NOT NULL DEFAULT now(),
  retention_days int NOT NULL DEFAULT 90 CHECK (retention_days >= 0),
  PRIMARY KEY (namespace)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.members (
  namespace text COLLATE "C", login text COLLATE "C", name text COLLATE "C" NOT NULL,
  role text NOT NULL CHECK (role IN ('reader', 'writer', 'admin')), since timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (namespace, login), UNIQUE (namespace, name)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.joined (  -- of NAME:team: which other namespaces a member has opened
  namespace text COLLATE "C", login text COLLATE "C", space text COLLATE "C",
  PRIMARY KEY (namespace, login, space)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.commits (  -- `place` tells commits of one xid apart: those of a hub that moved
  namespace text COLLATE "C", id text COLLATE "C", xid xid8 NOT NULL, place int NOT NULL DEFAULT 0,
  at text NOT NULL, received timestamptz NOT NULL DEFAULT now(), member text NOT NULL, machine text NOT NULL,
  by text NOT NULL, why text NOT NULL, undoes text NOT NULL,
  PRIMARY KEY (namespace, id)) PARTITION BY HASH (namespace);
CREATE INDEX ON memsheaf.commits (namespace, xid, place);
CREATE TABLE memsheaf.revisions (
  namespace text COLLATE "C", commit text COLLATE "C", path text COLLATE "C",
  before text COLLATE "C" NOT NULL, after text COLLATE "C" NOT NULL,
  PRIMARY KEY (namespace, commit, path)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.texts (
  namespace text COLLATE "C", version text COLLATE "C", data bytea NOT NULL,
  PRIMARY KEY (namespace, version)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.documents (  -- no two are one file where case and composition do not count
  namespace text COLLATE "C", folded text COLLATE "C", path text COLLATE "C" NOT NULL, version text COLLATE "C" NOT NULL,
  commit text COLLATE "C" NOT NULL, PRIMARY KEY (namespace, folded)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.erasures (  -- each is a commit without revisions, too
  namespace text COLLATE "C", id text COLLATE "C", names text[] NOT NULL, versions text[] NOT NULL,
  PRIMARY KEY (namespace, id)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.machines (
  namespace text COLLATE "C", id text COLLATE "C", name text NOT NULL, member text NOT NULL,
  seen timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (namespace, id)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.proofs (
  namespace text COLLATE "C", erasure text COLLATE "C", machine text COLLATE "C", found text NOT NULL,
  at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (namespace, erasure, machine)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.tokens (  -- of NAME:team; `digest` is the SHA-256 of the token
  namespace text COLLATE "C", digest bytea, login text COLLATE "C" NOT NULL, made timestamptz NOT NULL DEFAULT now(),
  expires timestamptz NOT NULL, revoked timestamptz, PRIMARY KEY (namespace, digest)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.inbox (  -- a turn that was learned from, or forgotten, is NULL and not taken in again
  namespace text COLLATE "C", id text COLLATE "C", login text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  place int NOT NULL, turn jsonb, batch text, tries int NOT NULL DEFAULT 0,
  PRIMARY KEY (namespace, id)) PARTITION BY HASH (namespace);
CREATE INDEX ON memsheaf.inbox (namespace, login, at, place) WHERE turn IS NOT NULL;
CREATE TABLE memsheaf.proposals (  -- one that was decided is NULL and not proposed again
  namespace text COLLATE "C", id text COLLATE "C", login text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  proposal jsonb, outcome text NOT NULL DEFAULT '', decided_by text NOT NULL DEFAULT '',
  PRIMARY KEY (namespace, id)) PARTITION BY HASH (namespace);
CREATE TABLE memsheaf.spend (
  namespace text COLLATE "C", day date, requests bigint NOT NULL, tokens bigint NOT NULL,
  PRIMARY KEY (namespace, day)) PARTITION BY HASH (namespace);

-- Who asks: the login; for servers the member that they name, and nobody when they name none.
CREATE FUNCTION memsheaf.me() RETURNS text LANGUAGE sql STABLE
RETURN CASE WHEN pg_has_role(session_user, 'memsheaf_service', 'USAGE')
  THEN nullif(current_setting('memsheaf.member', true), '') ELSE session_user::text END;
-- The namespace that this transaction or session has named in `memsheaf.namespace`, if whoever asks is a member of it.
CREATE FUNCTION memsheaf.entered() RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT m.namespace FROM memsheaf.members m
    WHERE m.namespace = current_setting('memsheaf.namespace', true) AND m.login = memsheaf.me());
END $$;

-- Divide the tables. The owner sees the namespace that is named, members the same where it is theirs; some tables they
-- reach through functions alone.
DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['spaces', 'members', 'joined', 'commits', 'revisions', 'texts', 'documents', 'erasures',
    'machines', 'proofs', 'tokens', 'inbox', 'proposals', 'spend'] LOOP
    FOR i IN 0 .. 3 LOOP
      EXECUTE format('CREATE TABLE memsheaf.%I PARTITION OF memsheaf.%I FOR VALUES WITH (MODULUS 4, REMAINDER %s)',
        name || '_' || i, name, i);
      EXECUTE format('ALTER TABLE memsheaf.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name || '_' || i);
    END LOOP;
    EXECUTE format('ALTER TABLE memsheaf.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY named ON memsheaf.%I TO memsheaf_owner
      USING (namespace = current_setting(''memsheaf.namespace'', true))', name);
    IF name NOT IN ('joined', 'tokens', 'inbox', 'spend') THEN
      EXECUTE format('CREATE POLICY entered ON memsheaf.%I FOR SELECT TO memsheaf_member
        USING (namespace = (SELECT memsheaf.entered()))', name);
      EXECUTE format('GRANT SELECT ON memsheaf.%I TO memsheaf_member', name);
    END IF;
  END LOOP;
END $$;

-- Let the caller into a namespace: their name there, provided that they have the role, and a client that may do what
-- needs more than to read. Owner only.
CREATE FUNCTION memsheaf.enter(ns text, needed text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  found record;
  entered text := set_config('memsheaf.namespace', ns, true);
BEGIN
  SELECT m.name, m.role INTO found FROM memsheaf.members m WHERE m.namespace = ns AND m.login = memsheaf.me();
  IF found.role = 'admin' OR found.role = needed OR (needed = 'reader' AND found.role IS NOT NULL) THEN
    IF needed <> 'reader' AND memsheaf.is_too_old() THEN
      RAISE feature_not_supported USING MESSAGE = 'this version of memsheaf is too old for the hub: upgrade it';
    END IF;
    RETURN found.name;
  END IF;
  entered := set_config('memsheaf.namespace', '', true);
  RAISE insufficient_privilege USING MESSAGE =
    CASE WHEN found.role IS NULL THEN 'not a member'
    ELSE format('%s has the role %s, and that needs %s', found.name, found.role, needed) END;
END $$;

-- What a new connection asks first. A hub whose xids are ahead of the server was moved there by dump and restore: new
-- commits would come before old ones.
CREATE FUNCTION memsheaf.hello(ns text, OUT version int, OUT name text, OUT role text, OUT epoch uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  hello.name := memsheaf.enter(ns, 'reader');
  SELECT a.version INTO hello.version FROM memsheaf.about a;
  SELECT m.role INTO hello.role FROM memsheaf.members m WHERE m.namespace = ns AND m.login = memsheaf.me();
  SELECT s.epoch INTO hello.epoch FROM memsheaf.spaces s WHERE s.namespace = ns;
  IF (SELECT max(c.xid) FROM memsheaf.commits c WHERE c.namespace = ns) >= pg_snapshot_xmax(pg_current_snapshot()) THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = 'the hub was moved to another server', HINT = 'moved';
  END IF;
END $$;

-- One path at a time is changed; this must come before the transaction has an xid, so that xids of one path are in
-- the order of its commits. Keys hang on the epoch, which nobody outside knows. Many paths, and whatever drops texts
-- that a push may be about to name, take the whole namespace.
--
-- What is one path here must be one for clients, which fold more: none would give it another name. So İ is not i, and
-- in a Turkish database I is not ı.
CREATE FUNCTION memsheaf.fold(path text) RETURNS text LANGUAGE sql IMMUTABLE
RETURN lower(lower(replace(normalize(path, NFC), 'İ', 'i' || chr(775)) COLLATE "C") COLLATE "default");
CREATE FUNCTION memsheaf.lock_paths(seed bigint, paths text[] DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE locked text;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = 'this must be a transaction of its own';
  ELSIF paths IS NULL OR cardinality(paths) > 64 THEN
    locked := pg_advisory_xact_lock(seed);
  ELSE
    locked := pg_advisory_xact_lock_shared(seed);
    IF cardinality(paths) = 1 THEN
      locked := pg_advisory_xact_lock(hashtextextended(memsheaf.fold(paths[1]), seed));
    ELSE
      PERFORM pg_advisory_xact_lock(k.key) FROM
        (SELECT DISTINCT hashtextextended(memsheaf.fold(p.path), seed) AS key FROM unnest(paths) p(path) ORDER BY 1) k;
    END IF;
  END IF;
END $$;
CREATE FUNCTION memsheaf.lock_seed(ns text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT hashtextextended(s.epoch::text, 0) FROM memsheaf.spaces s WHERE s.namespace = ns);
END $$;

-- Whether a step is sound: a plain relative path that a replica can have, and a text that is the version it says.
CREATE FUNCTION memsheaf.is_sound(path text, before text, after text, data bytea) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN octet_length(path) <= 400 AND path ~ '^[^/.\x01-\x1f\\][^/\x01-\x1f\\]*(/[^/.\x01-\x1f\\][^/\x01-\x1f\\]*)*$'
  AND path <> 'MEMORY.md' AND before IS NOT NULL AND coalesce(octet_length(data), 0) <= 1048576
  AND after = coalesce(encode(sha256(data), 'hex'), '');

-- A plan that was made while a table was empty is kept, so that here and in `pull` what is looked up is a subquery or
-- LATERAL … OFFSET 0: by its key, never by joining all of a namespace, whatever the statistics say.
--
-- Make a commit: its position, or the path that is not at the version `before`. The same commit again is nothing.
CREATE FUNCTION memsheaf.push(
  ns text, id text, at text, machine text, by text, why text, undoes text,
  paths text[], befores text[], afters text[], datas bytea[], OUT pushed text, OUT changed text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  entered text := set_config('memsheaf.namespace', ns, true);
  caller record;
  known record;
  sound boolean;
  made bigint;
BEGIN
  SELECT m.name, m.role, (SELECT hashtextextended(s.epoch::text, 0) FROM memsheaf.spaces s WHERE s.namespace = ns) AS seed
    INTO caller FROM memsheaf.members m WHERE m.namespace = ns AND m.login = memsheaf.me();
  IF coalesce(caller.role, 'reader') = 'reader' OR memsheaf.is_too_old() THEN PERFORM memsheaf.enter(ns, 'writer'); END IF;
  sound := push.id ~ '^[0-9a-f]{6,15}$' AND push.undoes ~ '^[0-9a-f]{0,15}$'
    AND push.at ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d{1,6})?Z$'
    AND octet_length(push.machine) <= 200 AND octet_length(push.by) <= 200 AND octet_length(push.why) <= 10000
    AND cardinality(paths) <= 20000 AND cardinality(paths) = cardinality(datas)
    AND memsheaf.is_sound(paths[1], befores[1], afters[1], datas[1]);
  IF sound AND cardinality(paths) > 1 THEN
    SELECT bool_and(memsheaf.is_sound(s.path, s.before, s.after, s.data)) INTO sound
      FROM unnest(paths, befores, afters, datas) s(path, before, after, data);
  END IF;
  IF sound IS NOT true THEN
    RAISE check_violation USING MESSAGE = 'the commit is not sound: a path, a version or a size';
  END IF;
  PERFORM memsheaf.lock_paths(caller.seed, paths);
  SELECT s.path INTO changed FROM unnest(paths, befores) s(path, before) WHERE s.before <>
    coalesce((SELECT d.version FROM memsheaf.documents d
      WHERE d.namespace = ns AND d.folded = memsheaf.fold(s.path) AND d.path = s.path), '') LIMIT 1;
  IF changed IS NULL THEN
    INSERT INTO memsheaf.commits (namespace, id, xid, at, member, machine, by, why, undoes)
      VALUES (ns, push.id, pg_current_xact_id(), push.at, caller.name, push.machine, push.by, push.why, push.undoes)
      ON CONFLICT DO NOTHING RETURNING xid INTO pushed;
  END IF;
  IF pushed IS NULL THEN
    SELECT c.xid, c.member = caller.name AND NOT EXISTS (SELECT r.path, r.before, r.after FROM memsheaf.revisions r
        WHERE r.namespace = ns AND r.commit = push.id EXCEPT SELECT * FROM unnest(paths, befores, afters)) AS same
      INTO known FROM memsheaf.commits c WHERE c.namespace = ns AND c.id = push.id;
    IF known.same THEN
      pushed := known.xid;
      changed := NULL;
    ELSIF known.xid IS NOT NULL THEN
      RAISE unique_violation USING MESSAGE = 'another commit has this id';
    END IF;
    RETURN;
  END IF;
  IF '' = ANY (afters) THEN
    DELETE FROM memsheaf.documents d USING unnest(paths, afters) s(path, after)
      WHERE d.namespace = ns AND d.folded = memsheaf.fold(s.path) AND d.path = s.path AND s.after = '';
  END IF;
  WITH step AS (
    SELECT s.* FROM unnest(paths, befores, afters, datas) s(path, before, after, data)
  ), text AS (
    INSERT INTO memsheaf.texts (namespace, version, data)
      SELECT DISTINCT ON (s.after) ns, s.after, s.data FROM step s WHERE s.after <> '' ON CONFLICT DO NOTHING
  ), revision AS (
    INSERT INTO memsheaf.revisions (namespace, commit, path, before, after)
      SELECT ns, push.id, s.path, s.before, s.after FROM step s
  )
  INSERT INTO memsheaf.documents AS d (namespace, folded, path, version, commit)
    SELECT ns, memsheaf.fold(s.path), s.path, s.after, push.id FROM step s WHERE s.after <> ''
    ON CONFLICT (namespace, folded) DO UPDATE SET version = excluded.version, commit = excluded.commit
    WHERE d.path = excluded.path;
  GET DIAGNOSTICS made = ROW_COUNT;
  IF made < cardinality(array_remove(afters, '')) THEN
    SELECT s.path, d.path AS other INTO known FROM unnest(paths) s(path)
      JOIN memsheaf.documents d ON d.namespace = ns AND d.folded = memsheaf.fold(s.path) AND d.path <> s.path LIMIT 1;
    RAISE unique_violation USING MESSAGE = format('it is the same file as ''%s'' on some file systems', known.other),
      DETAIL = known.path, HINT = 'path';
  END IF;
END $$;

-- What was committed since a cursor: no row when nothing was; otherwise first the new cursor and the erasures as JSON
-- in `why`, then a row for each revision. The cursor is the last commit, its xid, the xids below it that were still
-- running, and the epoch. xids above it count as unseen, so that a hub that goes back in time skips nothing.
CREATE FUNCTION memsheaf.pull(ns text, cursor text) RETURNS TABLE (
  id text, at text, member text, machine text, by text, why text, undoes text, own boolean,
  path text, before text, after text, data bytea
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  entered text := set_config('memsheaf.namespace', ns, true);
  last record;
  epoch text;
  seen text[];
  high xid8;
  running xid8[];
  low xid8;
BEGIN
  SELECT m.name AS who, c.id, c.xid INTO last FROM memsheaf.members m LEFT JOIN LATERAL (
      SELECT c.id, c.xid FROM memsheaf.commits c WHERE c.namespace = ns ORDER BY c.xid DESC, c.place DESC LIMIT 1
    ) c ON true WHERE m.namespace = ns AND m.login = memsheaf.me();
  IF last.who IS NULL THEN
    PERFORM memsheaf.enter(ns, 'reader');
  ELSIF starts_with(cursor, last.id || '/' || last.xid || '//') THEN
    RETURN;
  END IF;
  SELECT s.epoch INTO epoch FROM memsheaf.spaces s WHERE s.namespace = ns;
  IF cursor <> '' THEN
    seen := string_to_array(cursor, '/');
    high := seen[2];
    running := string_to_array(seen[3], ',');
    IF seen[4] <> epoch OR (seen[1] <> '' AND NOT EXISTS
      (SELECT FROM memsheaf.commits c WHERE c.namespace = ns AND c.id = seen[1] AND c.xid = high)) THEN
      RAISE object_not_in_prerequisite_state USING MESSAGE = 'the hub was restored', HINT = 'restored';
    END IF;
    low := least(high, (SELECT min(r) FROM unnest(running) r));
    IF NOT EXISTS (SELECT FROM memsheaf.commits c WHERE c.namespace = ns AND c.xid >= low
      AND (c.xid > high OR c.xid = ANY (running))) THEN
      RETURN;
    END IF;
  END IF;
  RETURN QUERY SELECT '', '', '', '', '', json_build_object(
    'cursor', concat_ws('/', coalesce(last.id, ''), coalesce(last.xid, '0'), (SELECT coalesce(string_agg(x::text, ','),
      '') FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE x < last.xid), epoch),
    'erasures', (SELECT json_agg(json_build_array(e.id, e.names, e.versions, c.member, c.at) ORDER BY c.xid, c.place)
      FROM memsheaf.erasures e
      JOIN LATERAL (SELECT c.* FROM memsheaf.commits c WHERE c.namespace = ns AND c.id = e.id OFFSET 0) c ON true
      WHERE e.namespace = ns AND (cursor = '' OR c.xid > high OR c.xid = ANY (running))))::text,
    '', false, '', '', '', NULL::bytea;
  IF cursor = '' THEN
    RETURN QUERY SELECT c.id, c.at, c.member, c.machine, c.by, c.why, c.undoes, c.member = last.who, d.path, '', d.version,
        (SELECT t.data FROM memsheaf.texts t WHERE t.namespace = ns AND t.version = d.version)
      FROM memsheaf.documents d
      JOIN LATERAL (SELECT c.* FROM memsheaf.commits c WHERE c.namespace = ns AND c.id = d.commit OFFSET 0) c ON true
      WHERE d.namespace = ns ORDER BY c.xid, c.place, d.path;
  ELSE
    RETURN QUERY SELECT c.id, c.at, c.member, c.machine, c.by, c.why, c.undoes, c.member = last.who, r.path, r.before, r.after,
        (SELECT t.data FROM memsheaf.texts t WHERE t.namespace = ns AND t.version = r.after)
      FROM memsheaf.commits c LEFT JOIN LATERAL
        (SELECT r.* FROM memsheaf.revisions r WHERE r.namespace = ns AND r.commit = c.id OFFSET 0) r ON true
      WHERE c.namespace = ns AND c.xid >= low AND (c.xid > high OR c.xid = ANY (running))
      ORDER BY c.xid, c.place, r.path;
  END IF;
END $$;

-- Forget all that these names were, and these versions unless another path has one now; tell all machines to.
CREATE FUNCTION memsheaf.erase(ns text, id text, at text, machine text, names text[], versions text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, 'writer');
  gone text[];
BEGIN
  IF erase.id !~ '^[0-9a-f]{6,64}$' OR cardinality(erase.names) > 1000 OR cardinality(erase.versions) > 100000
    OR octet_length(erase.machine) > 200 OR octet_length(erase.at) > 200
    OR EXISTS (SELECT FROM unnest(erase.names) n(path) WHERE memsheaf.is_sound(n.path, '', '', NULL) IS NOT true) THEN
    RAISE check_violation USING MESSAGE = 'the erasure is not sound';
  END IF;
  PERFORM memsheaf.lock_paths(memsheaf.lock_seed(ns));
  IF EXISTS (SELECT FROM memsheaf.commits c WHERE c.namespace = ns AND c.id = erase.id) THEN RETURN; END IF;
  SELECT coalesce(array_agg(DISTINCT v.version), '{}') INTO gone FROM (
    SELECT unnest(erase.versions) AS version
    UNION SELECT unnest(ARRAY[r.before, r.after]) FROM memsheaf.revisions r
      WHERE r.namespace = ns AND r.path = ANY (erase.names)) v
    WHERE v.version <> '' AND NOT EXISTS (SELECT FROM memsheaf.documents d
      WHERE d.namespace = ns AND d.version = v.version AND d.path <> ALL (erase.names));
  PERFORM memsheaf.forget_waiting(ns, gone);
  INSERT INTO memsheaf.commits (namespace, id, xid, at, member, machine, by, why, undoes)
    VALUES (ns, erase.id, pg_current_xact_id(), coalesce(nullif(erase.at, ''),
      to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')), who, erase.machine, '', 'erased', '');
  INSERT INTO memsheaf.erasures VALUES (ns, erase.id, erase.names, gone);
  UPDATE memsheaf.commits c SET why = '' FROM memsheaf.revisions r
    WHERE c.namespace = ns AND r.namespace = ns AND r.commit = c.id AND r.path = ANY (erase.names);
  DELETE FROM memsheaf.revisions r WHERE r.namespace = ns AND r.path = ANY (erase.names);
  DELETE FROM memsheaf.documents d WHERE d.namespace = ns AND d.path = ANY (erase.names);
  DELETE FROM memsheaf.texts t WHERE t.namespace = ns AND t.version = ANY (gone);
END $$;

-- A machine is there, and carried out these erasures: [[id, what it found left], …].
CREATE FUNCTION memsheaf.report(ns text, id text, name text, erased jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, 'reader');
BEGIN
  INSERT INTO memsheaf.machines AS m (namespace, id, name, member)
    VALUES (ns, left(report.id, 200), left(report.name, 200), who)
    ON CONFLICT (namespace, id) DO UPDATE SET name = excluded.name, seen = now() WHERE m.member = who;
  IF NOT FOUND THEN RAISE insufficient_privilege USING MESSAGE = 'this is another member''s machine'; END IF;
  INSERT INTO memsheaf.proofs (namespace, erasure, machine, found)
    SELECT ns, e.id, report.id, left(p.value ->> 1, 1000) FROM jsonb_array_elements(erased) p
      JOIN memsheaf.erasures e ON e.namespace = ns AND e.id = p.value ->> 0
    ON CONFLICT (namespace, erasure, machine) DO UPDATE SET found = excluded.found, at = now();
END $$;

-- The key of the session lock for a piece of work.
CREATE FUNCTION memsheaf.lock_key(ns text, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM memsheaf.enter(ns, 'writer');
  RETURN (SELECT hashtextextended(name, hashtextextended(s.epoch::text, 1)) FROM memsheaf.spaces s WHERE s.namespace = ns);
END $$;

-- What admins do.

-- A team with its first admin; false when it is there already. Owner only.
CREATE FUNCTION memsheaf.create_space(ns text, login text, name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF ns !~ '^[a-z0-9-]{1,40}:team$' THEN RAISE check_violation USING MESSAGE = 'that is no name of a team'; END IF;
  PERFORM set_config('memsheaf.namespace', ns, true);
  INSERT INTO memsheaf.spaces (namespace) VALUES (ns) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO memsheaf.members (namespace, login, name, role) VALUES (ns, login, name, 'admin');
  RETURN true;
END $$;

-- A login role for a member, or another password for it. The password comes as its SCRAM verifier. Owner only.
-- All databases of a server share its logins: that of a team elsewhere is not taken over.
CREATE FUNCTION memsheaf.create_login(login text, verifier text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF login !~ '^[a-z0-9-]+[.][a-z0-9-]+$' OR octet_length(login) > 63 OR verifier !~ '^SCRAM-SHA-256[$][0-9A-Za-z+/=:$]+$' THEN
    RAISE check_violation USING MESSAGE = 'the name is too long, or the password is no SCRAM verifier';
  ELSIF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = create_login.login AND r.rolcanlogin)
    AND NOT EXISTS (SELECT FROM memsheaf.members m WHERE m.namespace = current_setting('memsheaf.namespace', true)
      AND m.login = create_login.login AND m.since < now()) THEN
    RAISE duplicate_object USING MESSAGE =
      format('the server has a login %s already, perhaps of a team in another database', login);
  END IF;
  EXECUTE format(CASE WHEN to_regrole(quote_ident(login)) IS NULL THEN 'CREATE ROLE %I LOGIN PASSWORD %L IN ROLE memsheaf_member'
    ELSE 'ALTER ROLE %I LOGIN PASSWORD %L' END, login, verifier);
END $$;

-- Let somebody in, or give a member another role, in the team and its other namespaces, and password. Their login is
-- TEAM.NAME.
CREATE FUNCTION memsheaf.invite(ns text, name text, role text, verifier text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  who text := memsheaf.enter(ns, 'admin');
  login text := split_part(ns, ':', 1) || '.' || name;
  space text;
BEGIN
  IF ns NOT LIKE '%:team' OR (name = who AND role <> 'admin') THEN
    RAISE check_violation USING MESSAGE = 'only a team has members, and admins cannot change their own role';
  END IF;
  PERFORM memsheaf.create_login(login, verifier);
  INSERT INTO memsheaf.members AS m (namespace, login, name, role) VALUES (ns, login, name, role)
    ON CONFLICT ON CONSTRAINT members_pkey DO UPDATE SET role = excluded.role;
  FOREACH space IN ARRAY ARRAY(SELECT j.space FROM memsheaf.joined j WHERE j.namespace = ns AND j.login = login) LOOP
    PERFORM set_config('memsheaf.namespace', space, true);
    UPDATE memsheaf.members m SET role = role
      WHERE m.namespace = space AND m.login = login AND space NOT LIKE '%:user/%';
  END LOOP;
  RETURN login;
END $$;

-- Take a member out of a team and of each namespace that they opened in it. What they wrote stays; their tokens go, and
-- what they told and nobody has learned from.
CREATE FUNCTION memsheaf.remove(ns text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  who text := memsheaf.enter(ns, 'admin');
  gone text := (SELECT m.login FROM memsheaf.members m WHERE m.namespace = ns AND m.name = name);
  space text;
BEGIN
  IF gone IS NULL OR ns NOT LIKE '%:team' THEN
    RETURN false;
  ELSIF NOT EXISTS (SELECT FROM memsheaf.members m WHERE m.namespace = ns AND m.role = 'admin' AND m.name <> name) THEN
    RAISE check_violation USING MESSAGE = 'a team has at least one admin';
  END IF;
  DELETE FROM memsheaf.members m WHERE m.namespace = ns AND m.login = gone;  -- first: see join_space
  DELETE FROM memsheaf.tokens t WHERE t.namespace = ns AND t.login = gone;
  FOREACH space IN ARRAY ns || ARRAY(SELECT j.space FROM memsheaf.joined j WHERE j.namespace = ns AND j.login = gone) LOOP
    PERFORM set_config('memsheaf.namespace', space, true);
    DELETE FROM memsheaf.members m WHERE m.namespace = space AND m.login = gone;
    DELETE FROM memsheaf.inbox i WHERE i.namespace = space AND i.login = gone;
    DELETE FROM memsheaf.machines m WHERE m.namespace = space AND m.member = name;  -- erasures wait for them no longer
  END LOOP;
  PERFORM set_config('memsheaf.namespace', ns, true);
  DELETE FROM memsheaf.joined j WHERE j.namespace = ns AND j.login = gone;
  IF to_regrole(quote_ident(gone)) IS NOT NULL AND starts_with(gone, split_part(ns, ':', 1) || '.') THEN
    BEGIN
      EXECUTE format('DROP ROLE %I', gone);
    EXCEPTION WHEN dependent_objects_still_exist THEN  -- a temporary table, say: it must not keep them in
      EXECUTE format('ALTER ROLE %I NOLOGIN PASSWORD NULL', gone);
    END;
  END IF;
  RETURN true;
END $$;

-- Drop texts that no path has, and that none has had for as many days; the commits stay. Gives how many texts went.
-- An erasure that every machine has carried out needs its names no longer. An admin may give other days from now on.
CREATE FUNCTION memsheaf.prune(ns text, days int DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := memsheaf.enter(ns, CASE WHEN days IS NULL THEN 'writer' ELSE 'admin' END);
  gone bigint;
BEGIN
  PERFORM memsheaf.lock_paths(memsheaf.lock_seed(ns));
  UPDATE memsheaf.spaces s SET retention_days = days WHERE s.namespace = ns AND days IS NOT NULL;
  SELECT s.retention_days INTO days FROM memsheaf.spaces s WHERE s.namespace = ns;
  WITH kept AS (
    SELECT d.version FROM memsheaf.documents d WHERE d.namespace = ns
    UNION SELECT unnest(ARRAY[r.before, r.after]) FROM memsheaf.revisions r
      JOIN memsheaf.commits c ON c.namespace = ns AND c.id = r.commit
      WHERE r.namespace = ns AND c.received > now() - make_interval(days => days)
  )
  DELETE FROM memsheaf.texts t WHERE t.namespace = ns AND NOT EXISTS (SELECT FROM kept k WHERE k.version = t.version);
  GET DIAGNOSTICS gone = ROW_COUNT;
  UPDATE memsheaf.erasures e SET names = '{}' WHERE e.namespace = ns AND names <> '{}' AND NOT EXISTS (
    SELECT FROM memsheaf.machines m WHERE m.namespace = ns AND NOT EXISTS (
      SELECT FROM memsheaf.proofs p WHERE p.namespace = ns AND p.machine = m.id AND p.erasure = e.id AND p.found = ''));
  RETURN gone;
END $$;

-- After the database was moved to another server by dump and restore: what is there comes before all that follows, and
-- a new epoch makes every machine bring both sides together.
CREATE FUNCTION memsheaf.restored(ns text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := memsheaf.enter(ns, 'admin');
BEGIN
  PERFORM memsheaf.lock_paths(memsheaf.lock_seed(ns));
  UPDATE memsheaf.spaces s SET epoch = gen_random_uuid() WHERE s.namespace = ns;
  UPDATE memsheaf.commits c SET xid = pg_current_xact_id(), place = o.place FROM
    (SELECT c.id, row_number() OVER (ORDER BY c.xid, c.place) AS place FROM memsheaf.commits c WHERE c.namespace = ns) o
    WHERE c.namespace = ns AND c.id = o.id;
END $$;

-- Servers and workers: tokens of members, turns that wait to be learned from, proposals, and what models cost.

-- A login role for servers and workers, or another password for it; no member's login has such a name. Owner only.
CREATE FUNCTION memsheaf.create_service(login text, verifier text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF login !~ '^memsheaf-[a-z0-9-]{1,50}$' THEN
    RAISE check_violation USING MESSAGE = 'the login of a service begins with memsheaf-';
  END IF;
  EXECUTE format(CASE WHEN to_regrole(quote_ident(login)) IS NULL THEN 'CREATE ROLE %I LOGIN PASSWORD %L IN ROLE memsheaf_service'
    ELSE 'ALTER ROLE %I PASSWORD %L' END, login, verifier);
END $$;

-- The member that a token names, if it is valid now. For servers.
CREATE FUNCTION memsheaf.token_member(ns text, digest bytea, OUT login text, OUT name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('memsheaf.namespace', ns, true);
  SELECT m.login, m.name INTO token_member.login, token_member.name FROM memsheaf.tokens t
    JOIN memsheaf.members m ON m.namespace = ns AND m.login = t.login
    WHERE t.namespace = ns AND t.digest = token_member.digest AND t.revoked IS NULL AND t.expires > now();
  PERFORM set_config('memsheaf.namespace', '', true);
END $$;

-- Keep a token: one's own, or as an admin another member's.
CREATE FUNCTION memsheaf.add_token(ns text, name text, digest bytea, days int) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, CASE WHEN memsheaf.enter(ns, 'reader') = add_token.name THEN 'reader' ELSE 'admin' END);
  whose text;
BEGIN
  SELECT m.login INTO whose FROM memsheaf.members m WHERE m.namespace = ns AND m.name = add_token.name;
  IF whose IS NULL OR octet_length(add_token.digest) <> 32 OR days NOT BETWEEN 1 AND 3660 THEN
    RAISE check_violation USING MESSAGE = 'no member has that name, or the token is not sound';
  END IF;
  INSERT INTO memsheaf.tokens VALUES (ns, add_token.digest, whose, now(), now() + make_interval(days => days));
  RETURN now() + make_interval(days => days);
END $$;

-- The tokens of a team, one's own or for an admin all; `id` are the first digits of the digest.
CREATE FUNCTION memsheaf.list_tokens(ns text)
RETURNS TABLE (id text, name text, made timestamptz, expires timestamptz, revoked timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE who text := memsheaf.enter(ns, 'reader');
BEGIN
  RETURN QUERY SELECT left(encode(t.digest, 'hex'), 12), coalesce(m.name, t.login), t.made, t.expires, t.revoked
    FROM memsheaf.tokens t LEFT JOIN memsheaf.members m ON m.namespace = ns AND m.login = t.login
    WHERE t.namespace = ns AND (t.login = memsheaf.me() OR EXISTS (SELECT FROM memsheaf.members a
      WHERE a.namespace = ns AND a.login = memsheaf.me() AND a.role = 'admin')) ORDER BY t.made;
END $$;

-- Revoke tokens by id, or all of a member by name; gives how many were valid.
CREATE FUNCTION memsheaf.revoke_token(ns text, which text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := memsheaf.enter(ns, 'reader');
  done bigint;
BEGIN
  UPDATE memsheaf.tokens t SET revoked = now() FROM memsheaf.list_tokens(ns) l
    WHERE t.namespace = ns AND left(encode(t.digest, 'hex'), 12) = l.id AND which IN (l.id, l.name) AND t.revoked IS NULL;
  GET DIAGNOSTICS done = ROW_COUNT;
  RETURN done;
END $$;

-- Open a namespace of a team for the caller: their own memories, or those of a project or an agent of the team. The
-- team notes it for `remove`; a removal in this moment is waited for.
CREATE FUNCTION memsheaf.join_space(ns text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  team text := split_part(ns, ':', 1) || ':team';
  who text := memsheaf.enter(team, 'reader');
  needed text := CASE WHEN ns = split_part(ns, ':', 1) || ':user/' || who THEN 'admin'
    WHEN ns ~ '^[^:]+:(project|agent)/[a-z0-9-]{1,64}$' THEN
      (SELECT m.role FROM memsheaf.members m WHERE m.namespace = team AND m.login = memsheaf.me()) END;
  is_new boolean := NOT EXISTS (SELECT FROM memsheaf.joined j
    WHERE j.namespace = team AND j.login = memsheaf.me() AND j.space = ns);
BEGIN
  IF needed IS NULL THEN RAISE insufficient_privilege USING MESSAGE = 'not a namespace of this member'; END IF;
  IF is_new THEN
    PERFORM FROM memsheaf.members m WHERE m.namespace = team AND m.login = memsheaf.me() FOR KEY SHARE;
    IF NOT FOUND THEN RAISE insufficient_privilege USING MESSAGE = 'not a member'; END IF;
    INSERT INTO memsheaf.joined (namespace, login, space) VALUES (team, memsheaf.me(), ns) ON CONFLICT DO NOTHING;
  END IF;
  PERFORM set_config('memsheaf.namespace', ns, true);
  IF is_new THEN
    INSERT INTO memsheaf.spaces (namespace) VALUES (ns) ON CONFLICT DO NOTHING;
    INSERT INTO memsheaf.members (namespace, login, name, role) VALUES (ns, memsheaf.me(), who, needed)
      ON CONFLICT DO NOTHING;
  END IF;
  UPDATE memsheaf.members m SET role = needed WHERE m.namespace = ns AND m.login = memsheaf.me() AND m.role <> needed;
END $$;

-- Take turns in: [{id, turn}, …]; gives how many are new.
CREATE FUNCTION memsheaf.add_turns(ns text, turns jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, 'writer');
  done bigint;
BEGIN
  IF octet_length(turns::text) > 8388608 OR 10000 < (SELECT count(*) FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.turn IS NOT NULL) THEN
    RAISE check_violation USING MESSAGE = 'too much waits to be learned from';
  END IF;
  INSERT INTO memsheaf.inbox (namespace, id, login, place, turn)
    SELECT ns, t.value ->> 'id', memsheaf.me(), t.ordinality, t.value -> 'turn'
    FROM jsonb_array_elements(turns) WITH ORDINALITY t ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS done = ROW_COUNT;
  RETURN done;
END $$;

-- The next turns of one conversation of the caller's, about so many bytes; the same until they are finished.
CREATE FUNCTION memsheaf.take_turns(ns text, most bigint) RETURNS TABLE (batch text, tries int, turn jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  who text := memsheaf.enter(ns, 'writer');
  first record;
  taken text;
BEGIN
  SELECT i.batch, i.id, i.turn ->> 'conversation' AS conversation INTO first FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.turn IS NOT NULL
    ORDER BY i.batch IS NULL, i.at, i.place LIMIT 1;
  taken := coalesce(first.batch, first.id);
  IF first.batch IS NULL THEN
    UPDATE memsheaf.inbox i SET batch = taken FROM (
      SELECT w.id, sum(octet_length(w.turn::text)) OVER (ORDER BY w.at, w.place) AS size FROM memsheaf.inbox w
      WHERE w.namespace = ns AND w.login = memsheaf.me() AND w.turn ->> 'conversation' = first.conversation) s
      WHERE i.namespace = ns AND i.id = s.id AND i.turn IS NOT NULL AND (s.size <= most OR i.id = first.id);
  END IF;
  UPDATE memsheaf.inbox i SET tries = i.tries + 1, batch = CASE WHEN i.turn IS NOT NULL THEN taken END  -- not what was erased
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = taken;
  RETURN QUERY SELECT i.batch, i.tries, i.turn FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = taken AND i.turn IS NOT NULL ORDER BY i.at, i.place;
END $$;

-- Have a proposal wait, unless some of the turns that it was learned from were erased meanwhile.
CREATE FUNCTION memsheaf.propose(ns text, learned text, id text, proposal jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE who text := memsheaf.enter(ns, 'writer');
BEGIN
  INSERT INTO memsheaf.proposals (namespace, id, login, proposal) SELECT ns, propose.id, memsheaf.me(), propose.proposal
    WHERE NOT EXISTS (SELECT FROM memsheaf.inbox i
      WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = learned AND i.turn IS NULL) ON CONFLICT DO NOTHING;
END $$;

-- These turns were learned from.
CREATE FUNCTION memsheaf.finish_turns(ns text, done text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE who text := memsheaf.enter(ns, 'writer');
BEGIN
  UPDATE memsheaf.inbox i SET turn = NULL WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.batch = done;
  DELETE FROM memsheaf.inbox i
    WHERE i.namespace = ns AND i.login = memsheaf.me() AND i.turn IS NULL AND i.at < now() - interval '30 days';
END $$;

-- A person decided about a proposal: its text is forgotten. False when somebody else did before.
CREATE FUNCTION memsheaf.decide_proposal(ns text, which text, decided text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE who text := memsheaf.enter(ns, 'writer');
BEGIN
  UPDATE memsheaf.proposals p SET proposal = NULL, outcome = left(decided, 40), decided_by = who
    WHERE p.namespace = ns AND p.id = which AND p.proposal IS NOT NULL;
  RETURN FOUND;
END $$;

-- Take what a request to a model may cost from the day of a team; false when the day has no room. For workers.
CREATE FUNCTION memsheaf.reserve_spend(ns text, cost bigint, most_requests bigint, most_tokens bigint) RETURNS date
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM set_config('memsheaf.namespace', ns, true);
  IF most_requests < 1 OR cost > most_tokens THEN
    RETURN NULL;
  END IF;
  INSERT INTO memsheaf.spend AS s VALUES (ns, current_date, 1, cost)
    ON CONFLICT (namespace, day) DO UPDATE SET requests = s.requests + 1, tokens = s.tokens + cost
    WHERE s.requests < most_requests AND s.tokens + cost <= most_tokens;
  RETURN CASE WHEN FOUND THEN current_date END;
END $$;
CREATE FUNCTION memsheaf.settle_spend(ns text, of_day date, more bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('memsheaf.namespace', ns, true);
  UPDATE memsheaf.spend s SET tokens = s.tokens + more WHERE s.namespace = ns AND s.day = of_day;
END $$;

-- What waits and says what erased texts said is forgotten. `plain` is how texts are compared.
CREATE FUNCTION memsheaf.plain(said text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT trim(regexp_replace(lower(said), '[^[:alnum:]]+', ' ', 'g'))
$$;
CREATE FUNCTION memsheaf.plain(data bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN convert_from(data, 'UTF8');
EXCEPTION WHEN data_exception THEN
  RETURN '';
END $$;
CREATE FUNCTION memsheaf.plain(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(memsheaf.plain(v #>> '{}'), ' '), '')
    FROM jsonb_path_query(value, '$.**') v WHERE jsonb_typeof(v) = 'string'
$$;
CREATE FUNCTION memsheaf.forget_waiting(ns text, versions text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE pieces text[];
BEGIN
  SELECT array_agg(DISTINCT p.piece) INTO pieces FROM memsheaf.texts t
    CROSS JOIN LATERAL (SELECT memsheaf.plain(t.data) AS said) s
    CROSS JOIN LATERAL (SELECT regexp_replace(s.said, '^---\n.*?\n---\n', '') AS body) b
    CROSS JOIN LATERAL (
      SELECT memsheaf.plain(b.body) AS piece
      UNION SELECT memsheaf.plain(l) FROM regexp_split_to_table(b.body, '\n|[.!?;]\s') l
        WHERE memsheaf.plain(l) ~ '\S+ \S+ \S+ \S+'
      UNION SELECT memsheaf.plain((regexp_match(s.said, '\n' || h || ': ([^\n]*)'))[1])
        FROM unnest(ARRAY['name', 'description']) h
        WHERE memsheaf.plain((regexp_match(s.said, '\n' || h || ': ([^\n]*)'))[1]) ~ '\S+ \S+ \S+ \S+') p
    WHERE t.namespace = ns AND t.version = ANY (versions) AND length(p.piece) >= 6;
  UPDATE memsheaf.inbox i SET turn = NULL WHERE i.namespace = ns AND i.turn IS NOT NULL
    AND EXISTS (SELECT FROM unnest(pieces) p WHERE strpos(memsheaf.plain(i.turn), p) > 0);
  UPDATE memsheaf.proposals q SET proposal = NULL, outcome = 'erased' WHERE q.namespace = ns AND q.proposal IS NOT NULL
    AND EXISTS (SELECT FROM unnest(pieces) p WHERE strpos(memsheaf.plain(q.proposal), p) > 0);
END $$;

GRANT EXECUTE ON FUNCTION memsheaf.me, memsheaf.entered, memsheaf.hello, memsheaf.push, memsheaf.pull, memsheaf.erase,
  memsheaf.report, memsheaf.lock_key, memsheaf.invite, memsheaf.remove, memsheaf.prune,
  memsheaf.restored,
  memsheaf.add_token, memsheaf.list_tokens, memsheaf.revoke_token, memsheaf.join_space,
  memsheaf.add_turns, memsheaf.take_turns, memsheaf.propose, memsheaf.finish_turns, memsheaf.decide_proposal TO memsheaf_member;
GRANT EXECUTE ON FUNCTION memsheaf.token_member, memsheaf.reserve_spend, memsheaf.settle_spend TO memsheaf_service;
