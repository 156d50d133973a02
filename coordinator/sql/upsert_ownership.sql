INSERT INTO partition_ownership (group_name, topic_name, topic_id, partition, copy,
                                 owner, since_generation, state)
SELECT %(group)s, topic_name, topic_id, partition, 0, owner, since_generation, state
FROM unnest(%(topic_names)s::text[], %(topic_ids)s::uuid[], %(partitions)s::int[],
            %(owners)s::text[], %(since_generations)s::bigint[], %(states)s::text[])
     AS u (topic_name, topic_id, partition, owner, since_generation, state)
ON CONFLICT (group_name, topic_id, partition, copy) DO UPDATE
SET owner = EXCLUDED.owner, since_generation = EXCLUDED.since_generation, state = EXCLUDED.state
